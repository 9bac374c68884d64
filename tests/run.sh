#!/bin/sh
# Set up and run the tests that are quick, or with --all all of them, on all cores.
# Arguments go to pytest: sh tests/run.sh -k slice
#
#   INSTALLED  a virtual environment whose lodcli is tested, in place of this folder's
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/.ci/venv.sh"

if [ -n "${INSTALLED:-}" ]; then
    venv=$(cd "$INSTALLED" && pwd)
    # Away from the folders of modules, which would be imported in place of the installed package.
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    cd "$root"
    cp -RP .ci LICENSE changes docs samples tests ./*.* "$copy"
    cd "$copy"
else
    use_venv "[test]"
    cd "$root"
    # All kernels at once: otherwise each test that needs one starts a process that compiles it.
    if [ "$*" = "" ] || [ "$*" = --all ]; then
        "$venv/bin/python" -P -m lodcli.kernels.native.build --level here --cache ||
            say "kernels will be compiled when tests need them"
    fi
fi
# Three processes for two cores: many tests wait for processes that they start. One that is done takes
# tests from another, which may hold long ones.
"$venv/bin/python" -m pytest -n $((($(nproc) * 3 + 1) / 2)) --dist worksteal "$@"
