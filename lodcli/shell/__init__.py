"""What all commands share: options, references, opening, output, progress, signals, failures."""
