"""Plant faults in the GPU kernels, one at a time, and count those that the tests find.

    python -m tests.cuda.mutate [SEED]

The kernels run on the CPU (tests/cuda/run.sh), threads and blocks in the random order of SEED.
Fails if tests fail without a fault, or find fewer than nine of ten faults. Takes some ten minutes
on two cores.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.cuda.hot import ROOT
from tests.cuda.mutants import MUTANTS, Mutant

FLOOR = 0.9
LONGEST = 900  # seconds: a fault may cause a deadlock


def found(mutant: Mutant, seed: int, *, planted: bool = True) -> bool:
    """Return whether the tests for a fault fail; without an injected one, on the unchanged tree."""
    environment = os.environ | {
        "HOST_CUDA_ORDER": str(seed),
        "HOST_CUDA_SANITIZE": mutant.checked,
        "LOD_TEST_BACKENDS": "cupy",
        "PYTHONPATH": str(ROOT / "tests" / "cuda" / "host"),
    }
    if mutant.checked == "1":
        libraries = ("libasan.so", "libstdc++.so")
        environment["LD_PRELOAD"] = " ".join(
            subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
            for name in libraries
        )
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    if planted:
        environment["HOST_CUDA_CHANGE"] = json.dumps([mutant.old, mutant.new])
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.tests]
    command += ["--hypothesis-profile=few", "-k", "not finite_differences"]
    command += ["-p", "tests.cuda.moving"] if mutant.of_ops else []
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode > 1:
        raise RuntimeError(done.stdout.decode()[-4000:] + done.stderr.decode()[-4000:])
    return done.returncode != 0


def main() -> int:
    """Print the result for each fault."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        whole = {(mutant.tests, mutant.checked): mutant for mutant in MUTANTS}
        faults = pool.map(partial(found, seed=seed, planted=False), whole.values())
        for (tests, checked), fails in zip(whole, faults, strict=True):
            if fails:
                print(f"{tests} fails without a fault; HOST_CUDA_SANITIZE={checked}")
                return 1
        count = 0
        for mutant, caught in zip(
            MUTANTS, pool.map(partial(found, seed=seed), MUTANTS), strict=True
        ):
            count += caught
            print("found " if caught else "MISSED", mutant.kind, json.dumps(mutant.old), flush=True)
    print(f"{count} of {len(MUTANTS)} found")
    return int(count < FLOOR * len(MUTANTS))


if __name__ == "__main__":
    sys.exit(main())
