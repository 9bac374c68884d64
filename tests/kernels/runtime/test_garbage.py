"""Pauses of the search for garbage."""

from __future__ import annotations

import gc

import pytest

from lodcli.kernels.runtime.garbage import no_search_for_garbage


def test_the_search_is_paused_and_goes_on_also_after_an_error() -> None:
    def fail() -> None:
        with no_search_for_garbage(), no_search_for_garbage():
            assert not gc.isenabled()
            raise KeyError

    assert gc.isenabled()
    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_a_search_that_the_caller_ended_stays_so() -> None:
    gc.disable()
    try:
        with no_search_for_garbage():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
