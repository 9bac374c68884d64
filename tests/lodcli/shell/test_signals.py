"""SIGINT, SIGTERM, SIGHUP, SIGXCPU: commands end within a second and leave no partial files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from lodcli.formats.storage import interrupts
from lodcli.formats.storage.interrupts import Interrupted, checked, shielded
from tests.hanging import HANG_SECONDS, wait_for
from tests.launchers import handling
from tests.lodcli.conftest import environment
from tests.slow import one_in


@pytest.fixture
def handled() -> Iterator[None]:
    """Our handlers, in this process."""
    before = {signum: signal.signal(signum, signal.SIG_DFL) for signum in interrupts.SIGNALS}
    hook = threading.excepthook
    interrupts.install()
    yield
    threading.excepthook = hook
    for signum, handler in before.items():
        signal.signal(signum, handler)
    interrupts._state.reset()


def send(signum: int = signal.SIGINT) -> None:
    # Not os.kill: another thread could get it, and this one hear of it later.
    signal.raise_signal(signum)


@pytest.mark.parametrize("signum", interrupts.SIGNALS)
def test_an_interrupt_is_raised_at_once(handled: None, signum: int) -> None:
    with pytest.raises(Interrupted) as caught:
        send(signum)
    assert caught.value.signum == signum


def test_a_shield_holds_an_interrupt_back_until_its_end(handled: None) -> None:
    reached = []

    def work() -> None:
        with shielded():
            with shielded():
                send()
                reached.append("inner")
            reached.append("outer")
        reached.append("behind")

    with pytest.raises(Interrupted):
        work()
    assert reached == ["inner", "outer"]


@pytest.mark.parametrize("handler", [signal.default_int_handler, None])
def test_a_shield_defers_the_interrupt_of_a_program_that_uses_the_library(
    handler: Callable[[int, FrameType | None], object] | None,
) -> None:
    reached = []

    def work() -> None:
        with shielded():
            with shielded():
                send()
            reached.append("shielded")
        reached.append("behind")

    def program(signum: int, frame: FrameType | None) -> None:
        reached.append("handled")

    before = signal.signal(signal.SIGINT, handler or program)
    try:
        with pytest.raises(KeyboardInterrupt) if handler else contextlib.nullcontext():
            work()
        assert signal.getsignal(signal.SIGINT) is (handler or program)
        with shielded():  # the deferred interrupt is raised once
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == (["shielded"] if handler else ["shielded", "handled", "behind"])


def test_the_first_of_two_signals_counts(handled: None) -> None:
    def work() -> None:
        with shielded():
            send(signal.SIGTERM)
            send(signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        work()
    assert caught.value.signum == signal.SIGTERM


def test_an_interrupt_goes_before_an_error_of_the_shielded_block(handled: None) -> None:
    def work() -> None:
        with shielded():
            send()
            raise OSError("broken by the signal")

    with pytest.raises(Interrupted):
        work()


def test_a_second_signal_does_not_disturb_the_cleaning_up(handled: None) -> None:
    cleaned = []

    def work() -> None:
        try:
            send(signal.SIGTERM)
        finally:
            send(signal.SIGINT)
            with shielded():
                cleaned.append(True)

    with pytest.raises(Interrupted) as caught:
        work()
    assert cleaned == [True]
    assert caught.value.signum == signal.SIGTERM


def test_a_signal_long_after_one_that_got_lost_is_raised_again(
    handled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "CLEANING_SECONDS", 0.0)
    with pytest.raises(Interrupted):
        send()
    time.sleep(0.01)
    with pytest.raises(Interrupted):
        send()


def test_an_interrupt_that_got_lost_comes_between_batches(handled: None) -> None:
    class Swallowing:
        def __del__(self) -> None:
            # What Python does with anything raised in here.
            with contextlib.suppress(Interrupted):
                send()

    seen = []

    def work() -> None:
        for value in checked([1, 2, 3]):
            seen.append(value)
            if value == 2:
                Swallowing()

    with pytest.raises(Interrupted):
        work()
    assert seen == [1, 2]


def test_another_thread_cannot_be_interrupted(handled: None) -> None:
    outcome = []

    def work() -> None:
        with shielded():
            interrupts._state.received = signal.SIGINT
        interrupts.check()
        outcome.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == ["done"]
    assert interrupts._state.depth == 0


@pytest.mark.parametrize("signum", interrupts.SIGNALS)
def test_an_ignored_signal_stays_ignored(handled: None, signum: int) -> None:
    signal.signal(signum, signal.SIG_IGN)  # as nohup does with SIGHUP
    interrupts.install()
    assert signal.getsignal(signum) is signal.SIG_IGN


def test_a_pipe_closed_before_the_last_flush_is_silent() -> None:
    code = (
        "import sys; from lodcli.shell.standard_streams import finish, prepare_streams\n"
        "prepare_streams()\n"
        "sys.stdin.read(); sys.stdout.write('x'); sys.exit(finish(0, lambda error: 3))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(PYTHONUNBUFFERED=""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, stderr) == (141, b"")


# -- the installed command -----------------------------------------------------------


CODES = pytest.mark.parametrize(
    ("signum", "code"),
    [
        *((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)),
        *((signal.SIGQUIT, 131), (signal.SIGUSR1, 138), (signal.SIGUSR2, 140)),
    ],
)


# Sends SIGINT when the first module is imported that `main` needs.
EARLY = """
import os, signal, sys
FIRST = {"lodcli.main", "lodcli.kernels", "lodcli.kernels.lazy_names"}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("lodcli.") and name not in FIRST:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from lodcli.main import main
sys.exit(main())
"""


def test_an_interrupt_of_the_first_import_prints_no_traceback() -> None:
    done = subprocess.run(
        [*handling([signal.SIGINT]), sys.executable, "-c", EARLY, "inspect", "none.lod.h5"],
        env=environment(),
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, b"")


def test_an_ignored_interrupt_of_the_first_import_stays_ignored() -> None:
    """As nohup and background jobs of a shell ignore it."""
    ignoring = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    done = subprocess.run(
        [sys.executable, "-c", ignoring + EARLY, "inspect", "none.lod.h5"],
        env=environment(),
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith(b"lod inspect: none.lod.h5: no such file")


def started(line: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the installed `lod` with a pipe on standard input."""
    return subprocess.Popen(
        [*handling(interrupts.SIGNALS), "lod", *line.split()],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def waits_for_input(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the command is at work and sleeps in a read of a pipe."""
    folder = Path("/proc", str(process.pid))
    return "_multiarray_umath" in (folder / "maps").read_text() and (
        folder / "wchan"
    ).read_text().startswith(("pipe_read", "anon_pipe_read"))


def ended(process: subprocess.Popen[bytes], signum: int) -> tuple[int, bytes]:
    """Send the signal; return the exit code and stderr, of a process that nothing else ends."""
    process.send_signal(signum)
    # Not communicate(): it would close the pipe, and end the command by that.
    code = process.wait(timeout=HANG_SECONDS)
    assert process.stderr is not None
    stderr = process.stderr.read()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    return code, stderr


@CODES
@pytest.mark.parametrize(
    "line",
    one_in(4, ["convert - out.lod.h5", "verify -", "slice - 0 -o out.lod.h5", "inspect -"]),
)
def test_a_blocked_read_ends_at_once(folder: Path, line: str, signum: int, code: int) -> None:
    before = sorted(os.listdir(folder))
    process = started(line, folder)
    try:
        wait_for(lambda: waits_for_input(process))
    except OSError:
        process.kill()
        pytest.skip("needs /proc with wchan, to see that the command waits")
    assert ended(process, signum) == (code, b"")
    assert sorted(os.listdir(folder)) == before


def test_the_limit_on_processor_time_removes_the_partial_file_and_is_named(folder: Path) -> None:
    before = sorted(os.listdir(folder))
    process = started("convert - out.lods --from jsonl", folder)
    assert process.stdin is not None
    process.stdin.write(b"[1, 2]\n" * 1_000_000)
    wait_for(lambda: any("lod-partial" in name for name in os.listdir(folder)))
    said = b"lod convert: the limit on processor time is reached; allow more with ulimit -t\n"
    assert ended(process, signal.SIGXCPU) == (152, said)
    assert sorted(os.listdir(folder)) == before


@CODES
@pytest.mark.parametrize("out", one_in(3, ["out.lod.h5", "out.npz", "out.lods"]))
def test_a_long_conversion_ends_at_once_and_leaves_nothing(
    folder: Path, out: str, signum: int, code: int
) -> None:
    before = sorted(os.listdir(folder))
    process = started(f"convert - {out} --from jsonl", folder)
    stdin = process.stdin
    assert stdin is not None

    def feed() -> None:
        lines = b"[1, 2, 3, 4, 5, 6, 7, 8]\n" * 10_000
        try:
            while True:
                stdin.write(lines)
        except (BrokenPipeError, ValueError):
            pass

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    wait_for(lambda: any("lod-partial" in name for name in os.listdir(folder)))
    time.sleep(0.5)
    assert ended(process, signum) == (code, b"")
    feeder.join(timeout=HANG_SECONDS)
    assert sorted(os.listdir(folder)) == before
