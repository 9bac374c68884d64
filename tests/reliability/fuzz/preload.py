"""Imported by the server that forks workers: the modules that all workers need.

Modules for only one format are imported by its workers: forking a process that has imported torch
takes many times as long, and some formats are read in a child of the worker, one per file.
"""

from __future__ import annotations

import h5py  # noqa: F401

import lodcli.commands.convert.command
import lodcli.commands.inspect.command
import lodcli.commands.verify.command
import lodcli.commands.weights
import lodcli.formats.container.format
import lodcli.formats.sandbox.source
import lodcli.shell.group  # noqa: F401
