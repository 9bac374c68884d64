"""Write what type checkers read of the public modules again: python -m tests.make_stubs

Each name is imported by name from the module that it lives in: type checkers do not follow
`__getattr__`. tests/lodcli/test_public.py compares the files with this.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
STUBS = {
    "lodcli": "lodcli/__init__.pyi",
    "lodcli.errors": "lodcli/errors.pyi",
    "lodcli.formats": "formats/__init__.pyi",
    "lodcli.ops": "lodcli/ops.pyi",
    "lodcli.rnn": "lodcli/rnn.pyi",
    "lodcli.torch": "lodcli/torch.pyi",
}
_FIRST = "# Made by `python -m tests.make_stubs` of the module beside it: change that one.\n"
_WIDTH = 100


def homes_of(module: str) -> Mapping[str, tuple[str, str]]:
    """Return where each public name of a module lives."""
    loaded = vars(importlib.import_module(module))
    found: Mapping[str, tuple[str, str]] = (
        loaded["_HOMES"] if "_HOMES" in loaded else loaded["_homes"]()
    )
    return found


def stub(module: str) -> str:
    """Return the text of a module's stub, formatted and sorted as ruff does."""
    homes = homes_of(module)
    imports, aliases = set(), []
    for name, (home, attribute) in homes.items():
        if not attribute:
            package, _, attribute = home.rpartition(".")
            imports.add((package, attribute, attribute))
        elif attribute == name:
            imports.add((home, name, name))
        else:
            known = attribute if attribute in homes else f"_{attribute}"
            imports.add((home, attribute, known))
            aliases.append(f"{name} = {known}")
    lines = [
        _import(*each)
        for each in sorted(imports, key=lambda each: (each[0], _order(each[1])[0], each[1].lower()))
    ]
    if aliases:
        lines += ["", *sorted(aliases)]
    listed = importlib.import_module(module).__all__
    if "__version__" in listed:
        lines += ["", "__version__: str"]
    quoted = "".join(f'    "{name}",\n' for name in sorted(listed, key=_order))
    return _FIRST + "\n".join(lines) + f"\n\n__all__ = [\n{quoted}]\n"


def _import(home: str, attribute: str, name: str) -> str:
    line = f"from {home} import {attribute} as {name}"
    if len(line) <= _WIDTH:
        return line
    return f"from {home} import (\n    {attribute} as {name},\n)"


def _order(name: str) -> tuple[int, str]:
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name


def main() -> None:
    for module, path in STUBS.items():
        (ROOT / path).write_text(stub(module), encoding="utf-8")
        print(os.fspath(path))


if __name__ == "__main__":
    main()
