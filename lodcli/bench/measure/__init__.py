"""Timing: candidates in turn, peers in processes of their own, the machine."""
