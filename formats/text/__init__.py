"""Plain text, and code shared by text formats: lines and numerals."""
