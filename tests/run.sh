#!/bin/sh
# Set up and run the tests. Arguments go to pytest: sh tests/run.sh -k slice
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/.ci/venv.sh"

use_venv "[test]"
cd "$root"
exec "$venv/bin/python" -m pytest "$@"
