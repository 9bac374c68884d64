"""Test kit for ops."""
