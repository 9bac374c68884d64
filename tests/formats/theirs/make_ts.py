"""Copy the .ts files beside this one from aeon 1.6.0 (BSD 3-Clause): python make_ts.py."""

from importlib.resources import files
from pathlib import Path

for part in ("TRAIN", "TEST"):
    name = f"UnitTest_{part}.ts"
    source = files("aeon") / "datasets" / "data" / "UnitTest" / name
    (Path(__file__).parent / name).write_bytes(source.read_bytes())
