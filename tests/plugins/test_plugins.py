"""The pytest plugins of all tests: selection, the table of skipped tests, memory limits."""

from __future__ import annotations

import pytest

from tests.plugins import memory

pytest_plugins = ["pytester"]

TWO_KINDS = """
    import pytest
    def test_soon(): pass
    @pytest.mark.slow
    def test_late(): pass
"""


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    plugins = (f"-ptests.plugins.{name}" for name in ("slow", "skipped", "memory"))
    return pytester.runpytest_inprocess(*plugins, *args)


@pytest.fixture(autouse=True)
def ini(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = slow: as in pyproject.toml\n")


@pytest.mark.parametrize(
    ("args", "passed", "deselected"),
    [
        ((), 1, 1),
        (("folder",), 1, 1),
        (("--all",), 2, 0),
        (("folder/test_two_kinds.py",), 2, 0),
        (("folder/test_two_kinds.py::test_late",), 1, 0),
        (("-k", "late"), 1, 1),
        (("-k", "late or soon"), 2, 0),
        (("-m", "slow"), 1, 1),
        (("--slow-share", "1"), 2, 0),
    ],
)
def test_slow_tests_run_only_when_asked_for(
    pytester: pytest.Pytester, args: tuple[str, ...], passed: int, deselected: int
) -> None:
    pytester.mkpydir("folder")
    pytester.makepyfile(**{"folder/test_two_kinds": TWO_KINDS})
    run(pytester, *args).assert_outcomes(passed=passed, deselected=deselected)


def test_a_share_of_the_slow_tests_is_the_same_each_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.slow
        @pytest.mark.parametrize("number", range(100))
        def test_x(number): pass
    """)
    first, second = (run(pytester, "--slow-share", "4").parseoutcomes() for _ in range(2))
    assert first == second
    assert 10 < first["passed"] < 40


def test_tests_that_failed_last_run_again_even_if_slow(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.slow\ndef test_x(): assert False")
    run(pytester, "--all").assert_outcomes(failed=1)
    run(pytester, "--last-failed").assert_outcomes(failed=1)


def test_a_quick_run_says_that_it_was_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TWO_KINDS)
    said = "*marked slow were left out*"
    run(pytester).stdout.fnmatch_lines([said])
    run(pytester, "--all").stdout.no_fnmatch_line(said)


def test_the_table_counts_what_was_skipped_by_package_and_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_a="""
            import pytest
            def test_1(): pytest.importorskip("no_such_thing")
            def test_2(): pytest.importorskip("no_such_thing.part")
            def test_3(): pytest.importorskip("no_such_thing")
            @pytest.mark.skip("for a reason")
            def test_4(): pass
        """,
        test_b='import pytest\npytest.importorskip("no_such_thing")\ndef test_1(): pass',
    )
    run(pytester).stdout.fnmatch_lines(
        [
            "*= skipped =*",
            "  tests   files  why",
            "      3       1  needs the package no_such_thing",
            "      1          for a reason",
        ],
        consecutive=True,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_process_that_takes_too_much_memory_fails_the_run_and_names_the_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setattr(memory, "QUICK_BYTES", 10**7)
    pytester.makepyfile("def test_good(): pass\ndef test_hungry(): b'x' * 50_000_000")
    done = run(pytester, "-n", workers)
    done.assert_outcomes(passed=2)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["*= too much memory =*", "*allowed are 10 MB"])
    if workers == "2":  # this process may have used more before
        done.stdout.fnmatch_lines(["*MB  test_*::test_hungry"])
    # Slow tests may use more, and tests selected on the command line have no limit.
    assert run(pytester, "-n", workers, "--slow-share", "4").ret == 0
    assert run(pytester, "-n", workers, "-k", "good").ret == 0
