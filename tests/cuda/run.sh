#!/bin/sh
# Run the tests of ops and RNNs on the kernels for GPUs, compiled for the CPU, under the sanitizers:
# bounds, alignment and undefined behaviour. No GPU is needed, but g++ is.
#
#   PYTHON  the interpreter of an environment that holds lod and its tests
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python}

asan=$(gcc -print-file-name=libasan.so)
stdcxx=$(gcc -print-file-name=libstdc++.so)
if [ ! -e "$asan" ]; then
    echo "the kernels for GPUs were not run on the CPU: no sanitizers in $(gcc --version | head -n 1)"
    exit 0
fi

run() {
    order=$1
    shift
    env HOST_CUDA_REVERSE="$order" PYTHONPATH="$PWD/tests/cuda/host" HOST_CUDA_SANITIZE=1 \
        ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$asan $stdcxx" \
        "$python" -m pytest -q -n 2 --dist worksteal -p no:cacheprovider \
        --hypothesis-profile=few "$@"
}

export LOD_TEST_BACKENDS=cupy
files=$("$python" -c 'from tests.cuda.hot import TESTED; print(*TESTED)')

rnns=$("$python" -c 'from tests.cuda.hot import TESTED_RNNS; print(*TESTED_RNNS)')
of_rnns=$("$python" -c 'from tests.cuda.hot import OF_RNNS; print(OF_RNNS)')
on_arrays=$("$python" -c 'from tests.cuda.hot import ON_ARRAYS; print(*ON_ARRAYS)')

# The tests of the ops, whose rows are moved there and back; then what is public, on rows that
# lie there. Threads and blocks run from the last to the first, what is public also from the first
# to the last: nothing may depend on an order that no GPU promises.
# Finite differences take thousands of runs each to say what torch's gradients say in one.
run 1 -p tests.cuda.moving $files -k "not finite_differences"
for order in 0 1; do
    run $order $on_arrays tests/lodcli/commands/test_run_rnn_device.py tests/lodcli/commands/test_train_device.py \
        tests/lodcli/commands/test_apply_device.py
done
# Beside torch, which finds a GPU there.
HOST_CUDA_TORCH=1 run 1 tests/lodcli/bench/test_device.py tests/cuda/test_peers.py
run 1 -p tests.cuda.moving $rnns -k "$of_rnns"
