"""The list of formats and their capabilities, for commands and `lodcli.formats.formats()`."""
