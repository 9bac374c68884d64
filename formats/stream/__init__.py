"""The lod stream: tensors through a pipe. See docs/stream.md."""
