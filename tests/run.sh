#!/bin/sh
# Set up and run the tests that are quick, or with --all all of them, on all cores.
# Arguments go to pytest: sh tests/run.sh -k slice
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/.ci/venv.sh"

use_venv "[test]"
cd "$root"
# Three processes for two cores: many tests wait for processes that they start. One that is done takes
# tests from another, which may hold long ones.
exec "$venv/bin/python" -m pytest -n $((($(nproc) * 3 + 1) / 2)) --dist worksteal "$@"
