"""`python -m lodcli` is `lod`."""

import sys

from lodcli.main import main

if __name__ == "__main__":
    sys.exit(main())
