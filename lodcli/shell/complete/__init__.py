"""Completion in shells: of names in files, and the script for bash."""
