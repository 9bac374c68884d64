"""Shared code of the commands: options, references, opening, output, progress, failures."""
