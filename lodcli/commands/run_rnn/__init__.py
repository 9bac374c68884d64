"""`lod run-rnn`."""
