"""Draw all pictures again: `python -m tests.pictures`."""

from tests.pictures.draw import FOLDER, PICTURES, drawn

for name in PICTURES:
    (FOLDER / f"{name}.svg").write_text(drawn(name), "utf-8")
