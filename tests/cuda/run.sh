#!/bin/sh
# Run the tests of ops and RNNs on the kernels for GPUs, compiled for the CPU, under the sanitizers:
# bounds, alignment and undefined behaviour; then races. No GPU is needed, but g++ is.
#
#   PYTHON  the interpreter of an environment that holds lod and its tests
#   SEED    of the random order of threads and blocks when races are looked for (otherwise 1)
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python}

asan=$(gcc -print-file-name=libasan.so)
stdcxx=$(gcc -print-file-name=libstdc++.so)
if [ ! -e "$asan" ]; then
    echo "the kernels for GPUs were not run on the CPU: no sanitizers in $(gcc --version | head -n 1)"
    exit 0
fi

# test_with CHECK ORDER ..: CHECK is what kernels are compiled to check, and .. are pytest's arguments.
test_with() {
    check=$1 order=$2
    shift 2
    env HOST_CUDA_SANITIZE="$check" HOST_CUDA_ORDER="$order" PYTHONPATH="$PWD/tests/cuda/host" \
        "$python" -m pytest -q -n 2 --dist worksteal -p no:cacheprovider \
        --hypothesis-profile=few "$@"
}

run() {
    ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$asan $stdcxx" test_with 1 last "$@"
}

export LOD_TEST_BACKENDS=cupy
files=$("$python" -c 'from tests.cuda.hot import TESTED; print(*TESTED)')

rnns=$("$python" -c 'from tests.cuda.hot import TESTED_RNNS; print(*TESTED_RNNS)')
of_rnns=$("$python" -c 'from tests.cuda.hot import OF_RNNS; print(OF_RNNS)')
on_arrays=$("$python" -c 'from tests.cuda.hot import ON_ARRAYS; print(*ON_ARRAYS)')

of_devices="tests/lodcli/commands/test_run_rnn_device.py tests/lodcli/commands/test_train_device.py \
    tests/lodcli/commands/test_apply_device.py"

# half NUMBER COMMAND ..: a command that runs one half of the tests; all of them in a thorough run.
half() {
    export HOST_CUDA_HALF="$1"
    shift
    "$@" -p tests.cuda.halves
}

# The tests of the ops, whose rows are moved there and back; then half of those of what is public, on
# rows that lie there. Threads and blocks run from the last to the first: nothing may depend on an
# order that no GPU promises. Finite differences take thousands of runs each to say what torch's
# gradients say in one.
run -p tests.cuda.moving $files -k "not finite_differences"
half 0 run $on_arrays $of_devices
# Beside torch, which finds a GPU there.
HOST_CUDA_TORCH=1 run tests/lodcli/bench/test_device.py tests/cuda/test_peers.py
run -p tests.cuda.moving $rnns -k "$of_rnns"
# The other half: which accesses race, in whatever order they come; a random one besides.
seed=${SEED:-1}
echo "threads and blocks in the order of SEED=$seed"
half 1 test_with races "$seed" $on_arrays $of_devices
