"""Bytes on disk and in pipes: atomic files, sets of files, compression, zip archives."""
