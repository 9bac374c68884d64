"""Compiled scanner of JSON lines."""
