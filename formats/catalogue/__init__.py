"""What formats there are, and what each holds: for people, and for `lodcli.formats.formats()`."""
