#!/bin/sh
# The first checks on a machine with a GPU: results, then speed, then what limits it. They need an
# environment with lod, its tests and cupy (docs/internals/gpu.md), and no internet.
#
#   sh tests/cuda/first_hour.sh check [SECONDS]    # versions, then the tests (900)
#   sh tests/cuda/first_hour.sh bench [SECONDS]    # the most important ops and layers (1500)
#   sh tests/cuda/first_hour.sh more [SECONDS]     # the other parts, counters, compute-sanitizer (1200)
#
#   PYTHON  the interpreter of that environment
#   OUT     folder of logs and reports [default: build/gpu]
set -u
cd "$(dirname "$0")/../.."
stage=${1:-}
case $stage in
check) seconds=${2:-900} ;;
bench) seconds=${2:-1500} ;;
more) seconds=${2:-1200} ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
python=${PYTHON:-python} out=${OUT:-$PWD/build/gpu}
mkdir -p "$out"
stop=$(($(date +%s) + seconds)) failed=0

# run NAME SECONDS COMMAND ..: the log is OUT/NAME.log, its end is shown.
run() {
    name=$1 most=$2
    shift 2
    left=$((stop - $(date +%s)))
    [ "$most" -lt "$left" ] || most=$left
    if [ "$most" -lt 5 ]; then
        echo "== $name: no time left"
        failed=1
        return
    fi
    timeout -k 10 "$most" "$@" >"$out/$name.log" 2>&1
    code=$?
    [ "$code" = 0 ] || failed=1
    echo "== $name: exit code $code"
    tail -n 6 "$out/$name.log" | cut -c 1-200
}

tests() {
    name=$1 most=$2
    shift 2
    run "$name" "$most" "$python" -m pytest -q -m gpu -n 8 --dist worksteal -p no:cacheprovider "$@"
}

# Reports are written when the limit is reached, some seconds before the whole time is up.
measure() {
    limit=$((stop - $(date +%s) - 30))
    [ "$2" -lt "$limit" ] && limit=$2
    run "$1" "$((limit + 25))" \
        "$python" -m tests.benchmarks.measure --limit "$limit" --folder "$out/reports" $3
}

case $stage in
check)
    run versions 60 sh -c "nvidia-smi; $python -m lodcli --version"
    # What is compared with NumPy in few calls first, then every op's and RNN's own tests.
    tests public 180 tests/cuda/test_public.py tests/cuda/test_launch.py tests/cuda/test_persistent.py
    tests kernels 240 tests/cuda --ignore tests/cuda/test_on_gpu.py
    tests ops "$seconds" tests/cuda/test_on_gpu.py
    ;;
bench)
    measure ops 600 "gpu-softmax gpu-pool gpu-copy"
    measure rnn 600 "gpu-rnn-narrow gpu-rnn gpu-rnn-tf32"
    measure attention 200 "gpu-attention gpu-attention-half"
    measure half "$seconds" "gpu-rnn-float16 gpu-rnn-bfloat16 gpu-rnn-narrow-tf32"
    ;;
more)
    for tool in memcheck racecheck; do
        run "$tool" 200 compute-sanitizer --tool "$tool" --error-exitcode 9 "$python" -m pytest -q -n 0 \
            -p no:cacheprovider -p tests.cuda.unpooled tests/cuda/test_widths.py \
            tests/cuda/test_persistent.py -k "softmax or sums or dealt"
    done
    run counters 200 ncu --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy \
        -k "regex:pool_tiles|softmax_tiles|move_runs|persistent" --launch-count 8 \
        "$python" -m lodcli bench kernels --device cuda --op sum,softmax,reverse --rows 1e6
    measure large 400 "gpu-rnn-small gpu-rnn-large gpu-rnn-large-tf32 gpu-rnn-large-float16 gpu-rnn-large-bfloat16"
    measure others "$seconds" "gpu-pad gpu-narrow gpu-wide"
    ;;
esac
echo "logs and reports: $out"
exit "$failed"
