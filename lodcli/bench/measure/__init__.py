"""Timing: interleaved candidates, peers in separate processes, the machine."""
