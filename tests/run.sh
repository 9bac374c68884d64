#!/bin/sh
# Set up and run the tests that are quick, or with --all all of them, on all cores.
# Arguments go to pytest: sh tests/run.sh -k slice
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/.ci/venv.sh"

use_venv "[test]"
cd "$root"
# A process that is done takes tests from another, which may hold long ones.
exec "$venv/bin/python" -m pytest -n auto --dist worksteal "$@"
