# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.formats.testing.check_format import FormatReport as FormatReport
from lodcli.formats.testing.check_format import check_format as check_format

__all__ = [
    "FormatReport",
    "check_format",
]
