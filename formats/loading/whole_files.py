"""`lodcli.read`, `read_all` and `write`, whose errors name arguments of Python."""

from __future__ import annotations

from lodcli.formats.core import io
from lodcli.formats.loading.arguments import naming_arguments

read = naming_arguments()(io.read)
read_all = naming_arguments()(io.read_all)
write = naming_arguments()(io.write)
