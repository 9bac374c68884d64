#!/bin/sh
# Run the tests of the kernels for GPUs under compute-sanitizer, which comes with the CUDA toolkit:
# on a machine with an NVIDIA GPU, in an environment that holds lod, its tests and cupy. It takes long.
#
#   sh tests/cuda/sanitize.sh                    # memcheck, racecheck, synccheck and initcheck
#   sh tests/cuda/sanitize.sh racecheck          # these tools only
#
#   PYTHON  the interpreter of that environment
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python}
[ $# -gt 0 ] || set -- memcheck racecheck synccheck initcheck

if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed; it comes with the CUDA toolkit" >&2
    exit 4
fi
"$python" -c 'from lodcli.kernels.runtime.devices import require_gpu; require_gpu("cuda")'

files=$("$python" -c 'from tests.cuda.hot import TESTED; print(*TESTED)')
rnns=$("$python" -c 'from tests.cuda.hot import TESTED_RNNS; print(*TESTED_RNNS)')
of_rnns=$("$python" -c 'from tests.cuda.hot import OF_RNNS; print(OF_RNNS)')
on_arrays=$("$python" -c 'from tests.cuda.hot import ON_ARRAYS; print(*ON_ARRAYS)')
export LOD_TEST_BACKENDS=cupy PYTORCH_NO_CUDA_MEMORY_CACHING=1

run() {
    compute-sanitizer --tool "$tool" --error-exitcode 9 --target-processes all \
        "$python" -m pytest -q -n 0 -p no:cacheprovider -p tests.cuda.unpooled "$@"
}

for tool in "$@"; do
    echo "== $tool"
    run -p tests.cuda.moving $files
    run $on_arrays
    run -p tests.cuda.moving $rnns -k "$of_rnns"
done
