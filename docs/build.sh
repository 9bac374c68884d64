#!/bin/sh
# Build the pages of README.md and docs/ as a site in build/site/html, which opens without a server.
# Warnings are errors: a link that leads nowhere, a page that nothing leads to, a name without docstring.
# Arguments go to mkdocs: sh docs/build.sh serve
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/.ci/venv.sh"

use_venv "[docs]"
cd "$root"
mkdir -p build/site/pages
# Material prints advertisements for its own services otherwise.
export NO_MKDOCS_2_WARNING=1
exec "$venv/bin/mkdocs" "${@:-build}" --strict
