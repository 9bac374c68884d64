# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.formats.testing.check_format import FormatReport as FormatReport
from lodcli.formats.testing.check_format import check_format as check_format
from lodcli.kernels.testing.check_op import OpReport as OpReport
from lodcli.kernels.testing.check_op import check_op as check_op

__all__ = [
    "FormatReport",
    "OpReport",
    "check_format",
    "check_op",
]
