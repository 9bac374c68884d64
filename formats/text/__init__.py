"""Plain text, and what text formats share: lines and numerals."""
