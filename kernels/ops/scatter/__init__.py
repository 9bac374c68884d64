"""Adds updates at given positions."""
