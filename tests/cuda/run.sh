#!/bin/sh
# Run the tests of the ops on the kernels for GPUs, compiled for the CPU, under the sanitizers:
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
    env "$@" PYTHONPATH="$PWD/tests/cuda/host" LOD_TEST_BACKENDS=cupy HOST_CUDA_SANITIZE=1 \
        ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$asan $stdcxx" \
        "$python" -m pytest -q -n 2 -p no:cacheprovider -p tests.cuda.moving $files
}

# As its tests are named; what has no kernel here is refused, and not tested.
files=""
for op in $(ls kernels/on_cupy/*.cu | sed 's|.*/||; s|\.cu$||'); do
    case $op in
    moves) names="expand concat reverse pad slice_reshape" ;;
    pool_grad) names="" ;;
    *) names=$op ;;
    esac
    for name in $names; do files="$files tests/kernels/ops/test_$name.py"; done
done

run HOST_CUDA_REVERSE=0
run HOST_CUDA_REVERSE=1
