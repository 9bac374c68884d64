"""Conversions of values between a file and its reader or writer: casts, words, nulls."""
