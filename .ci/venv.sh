# Sourced by tests/run.sh, samples/tour.sh, .ci/run and .ci/nightly, which set `root`, the repository.
# Makes a virtual environment and installs lod in it; does nothing if nothing has changed.
#
#   PYTHON  the interpreter to use, 3.11 or later (default: the first suitable one on PATH)
#   VENV    the folder of the environment (default: .venv in the repository)

venv=${VENV:-$root/.venv}

say() {
    printf '%s\n' "$*" >&2
}

# is_recent PYTHON: succeeds if it runs and is 3.11 or later.
is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# find_python: prints the interpreter to use, or prints what is missing and fails.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        if ! is_recent "$PYTHON"; then
            say "PYTHON=$PYTHON is not a Python 3.11 or later that runs"
            return 1
        fi
        command -v "$PYTHON"
        return
    fi
    for name in python3 python3.11 python3.12 python3.13 python3.14; do
        if is_recent "$name"; then
            command -v "$name"
            return
        fi
    done
    say "lod needs Python 3.11 or later, and found: $(python3 --version 2>&1 || echo none)"
    say "try: sudo apt install python3 python3-venv"
    say "or name another interpreter: PYTHON=/path/to/python3.12 sh $0"
    return 1
}

# find_pythons: prints an interpreter of each version that pyproject.toml lists, found on PATH or in
# pyenv, the oldest first.
find_pythons() {
    versions=$(pyenv root 2>/dev/null)/versions
    for version in $(sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' "$root/pyproject.toml"); do
        for name in "python$version" "$versions/$version."*"/bin/python$version"; do
            if is_recent "$name"; then
                command -v "$name"
                break
            fi
        done
    done
}

# test_oldest FOLDER [ARGUMENTS]: runs the tests with the oldest versions that pyproject.toml accepts
# and the oldest Python found, installed in FOLDER. ARGUMENTS go to pytest.
test_oldest() {
    folder=$1
    shift
    grep -oE '[A-Za-z0-9_-]+>=[0-9.]+' "$root/pyproject.toml" | grep -v ^setuptools |
        sed 's/>=/==/' >"$folder/oldest.txt"
    env VENV="$folder/oldest" PIP_CONSTRAINT="$folder/oldest.txt" \
        PYTHON="$(find_pythons | head -n 1)" sh "$root/tests/run.sh" "$@"
}

# use_venv EXTRAS: installs lod from the current tree into `venv`, with EXTRAS such as "[test]".
use_venv() {
    make_venv
    wanted="$1 $root $(cksum <"$root/pyproject.toml")"
    if grep -qxF -e "$wanted" "$venv/lod-installed" 2>/dev/null; then
        return
    fi
    say "installing lod$1 into $venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --editable "$root$1" || exit 1
    echo "$wanted" >>"$venv/lod-installed"
}

# make_venv: makes `venv`, unless it exists and PYTHON does not name another interpreter.
make_venv() {
    made_with=$(cat "$venv/lod-python" 2>/dev/null || true)
    if [ -x "$venv/bin/python" ] && [ "$made_with" != unfinished ]; then
        if [ -z "${PYTHON:-}" ] || [ "$made_with" = "$(command -v "$PYTHON")" ]; then
            return
        fi
    fi
    if [ -e "$venv" ] && [ -z "$made_with" ]; then
        say "$venv was not made by this script; remove it, or name another folder: VENV=... sh $0"
        exit 1
    fi

    python=$(find_python) || exit 1
    # On Debian the venv module may lack ensurepip, and then cannot install pip in a new venv.
    if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        say "$python has no venv module"
        say "try: sudo apt install python3-venv"
        say "(for an interpreter that is not the default one, such as python3.12, python3.12-venv)"
        exit 1
    fi
    say "making a virtual environment in $venv with $("$python" --version 2>&1)"
    rm -rf "$venv"
    mkdir -p "$venv"
    # A venv whose creation was interrupted looks valid, but has no pip.
    echo unfinished >"$venv/lod-python"
    "$python" -m venv "$venv" || exit 1
    echo "$python" >"$venv/lod-python"
}

# use_everything: installs all software that tests use: packages in `venv`, and outside of it HDF5's
# tools, strace and shells. Tests are skipped if what they need cannot be installed.
use_everything() {
    # All extras that .ci/run needs later, so that nothing is installed while tests run.
    for extras in "[dev,codecs,dask,onnx,oracles,plot,remote,view,zarr]" "[docs]" "[test]"; do
        use_venv "$extras"
    done
    if ! { command -v h5dump && command -v strace && command -v zsh && command -v fish && command -v groff; } >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        { apt-get -qq update && apt-get -qq install -y hdf5-tools strace zsh fish groff; } >/dev/null 2>&1 ||
            echo "hdf5-tools, strace, zsh, fish or groff could not be installed; the tests that need them are skipped"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "torch==2.13.0" ||
        echo "torch could not be installed; the tests that need it are skipped"
    # Without their dependencies, which include another torch.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "megatron-core" "torchdata" ||
        echo "megatron-core or torchdata could not be installed; the tests that need them are skipped"
}
