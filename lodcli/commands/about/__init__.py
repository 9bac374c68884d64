"""Commands about lod itself: what a shell or a script asks it."""
