"""Ops that move rows by a lag within their sequences, and subtract them."""
