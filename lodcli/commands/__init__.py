"""One file a command; the table that names them is in lodcli/main.py."""
