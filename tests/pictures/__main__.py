"""Draw all pictures again: `python -m tests.pictures`."""

from tests.pictures.draw import FOLDER, PICTURES, PLOTS, drawn

for name in (*PICTURES, *PLOTS):
    (FOLDER / f"{name}.svg").write_text(drawn(name), "utf-8")
