"""The Python reference: a page for each public module, whose names are those of its stub."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
# module: (its stub, what it holds)
MODULES = {
    "lodcli": ("lodcli/__init__.pyi", "Tensors, files, loops, and the errors met most."),
    "lodcli.ops": ("lodcli/ops.pyi", "Sequence ops and their gradients."),
    "lodcli.rnn": ("lodcli/rnn.pyi", "Recurrent networks: cells, layers, training, weights."),
    "lodcli.torch": ("lodcli/torch.pyi", "Layers, ops and loaders for torch."),
    "lodcli.formats": ("formats/__init__.pyi", "The table of formats, limits, options."),
    "lodcli.errors": ("lodcli/errors.pyi", "Every error."),
    "lodcli.testing": ("lodcli/testing.pyi", "Tests for plug-ins."),
}


def python_pages() -> dict[str, str]:
    """Return the text of each page by its path; mkdocstrings fills in the docstrings."""
    public = {
        module: names((ROOT / stub).read_text("utf-8"), module)
        for module, (stub, _) in MODULES.items()
    }
    # What several modules have is described by one of them.
    owners = {home: module for module in reversed(public) for _, home in public[module]}
    owners |= {home: "lodcli.errors" for _, home in public["lodcli.errors"]}
    return {
        f"docs/python/{module}.md": page(module, found, owners) for module, found in public.items()
    }


def page(module: str, public: list[tuple[str, str]], owners: dict[str, str]) -> str:
    """Return the page of a module.

    Args:
        module: its name.
        public: its names, and where each is defined.
        owners: the module that describes what is defined there.
    """
    lines = [f"# {module}", "", MODULES[module][1], ""]
    for home in dict.fromkeys(home for _, home in public):
        name, *others = sorted((one for one, its in public if its == home), key=len)
        owner = owners[home]
        lines += [f"## {name}", ""]
        lines += [f"Also called `{other}`.\n" for other in others]
        if home == f"lodcli.torch.{name}":
            ops = f"[lodcli.ops.{name}](lodcli.ops.md#{name})"
            lines += [f"As {ops}, of [tensors of torch](../torch.md#ops)."]
        elif owner == module:
            lines += [f"::: {home}", "    options:", "      show_root_heading: false"]
        else:
            lines += [f"See [{owner}]({owner}.md#{name.lower()})."]
        lines += [""]
    return "\n".join(lines)


def names(stub: str, module: str) -> list[tuple[str, str]]:
    """Return each public name of a module's stub, and where it is defined."""
    homes: dict[str, str] = {}
    public: dict[str, str] = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lodcli"):
            for one in node.names:
                homes[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            assert isinstance(node.targets[0], ast.Name)
            public[node.targets[0].id] = homes[node.value.id]
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            public[node.name] = f"{module}.{node.name}"  # an op made at run time
    # Modules have pages of their own.
    public |= {name: home for name, home in homes.items() if home not in MODULES}
    return sorted((name, home) for name, home in public.items() if not name.startswith("_"))
