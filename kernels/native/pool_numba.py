"""Compiled worker loop of the pool: runs without the interpreter.

A pool is some words of memory. Threads made by Python stay in `serve`, asleep on the word `bell`.
A caller takes one of a few slots, writes down what is to be done and rings. Threads that find an
open slot join it, take pieces until there are none, and leave; the caller does the same, closes
the slot and waits until all have left. What is in a slot is read only by those who joined it.

Each thread takes pieces of its own share, from the first to the last one, and then of others'. So
it comes to the same pieces in every run, and finds in its own cache what it read and wrote there.

All words of a slot that threads write to at once are changed by atomic instructions. Its state
tells everything about it: how many helpers are in it, whether it is open, whether its caller
sleeps, and above these a number that is new each time, so that no thread joins a slot that was
opened again meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import function, pointer
from lodcli.kernels.native.linking.library import RAISED
from lodcli.kernels.native.system_numba import (
    add,
    at_least,
    call_3,
    clock_gettime,
    current_cpu,
    exchange,
    futex,
    leave_cpu,
    load,
    pause,
    stack_words,
    store,
)

# Words of a pool, each with a cache line of its own; then its slots. The first is for teams.
BELL, ASLEEP, ENDED, SLOTS_AT = 0, 8, 16, 24
SLOTS = 8
# Words of a slot: state, owner, what is to be done, and on other lines what changes all the time,
# the next piece of each share.
STATE, OWNER, CODE, BLOCK, PIECES, GRAIN, HELPERS, CPU = range(8)
STATUS, SHARES, NEXT, LINE = 8, 9, 16, 8
MOST_SHARES = 16
SLOT_WORDS = NEXT + MOST_SHARES * LINE
WORDS = SLOTS_AT + SLOTS * SLOT_WORDS

# A state: 31 bits, for the system compares 32.
_USERS, _OPEN, _SLEEPS, _TURN, _ALL = (1 << 12) - 1, 1 << 12, 1 << 13, 1 << 14, (1 << 31) - 1

#: What `run` and `finish` return when time is up and not all is done.
NOT_YET = -(1 << 62)
# How long a thread spins for what it waits for before it sleeps: docs/decisions/0022. It looks at
# the clock every so many pauses.
_AWAKE_NANOSECONDS = 100_000
_PAUSES = 32
_WAIT, _WAKE = 128, 129  # futex operations, of this process alone
_NANO = 1_000_000_000


@function()
def _wait(word: int, value: int, nanoseconds: int) -> None:
    """Sleep while a word is `value`, perhaps shorter; 0 for no limit."""
    limit = stack_words(2)
    until = pointer(limit, 2, np.int64)
    until[0], until[1] = nanoseconds // _NANO, nanoseconds % _NANO
    futex(word, _WAIT, value, limit if nanoseconds else 0)


@function()
def _wake(word: int, count: int) -> None:
    futex(word, _WAKE, count, 0)


@function()
def _now() -> int:
    """Return nanoseconds of a clock that only goes forward."""
    place = stack_words(2)
    clock_gettime(1, place)
    time = pointer(place, 2, np.int64)
    now: int = time[0] * _NANO + time[1]
    return now


@function()
def _stays(word: int, value: int) -> bool:
    """Spin as long as a word is `value`; return whether it still is when it is time to sleep."""
    deadline = 0
    while True:
        for _ in range(_PAUSES):
            if load(word) != value:
                return False
            pause()
        if not deadline:
            deadline = _now() + _AWAKE_NANOSECONDS
        elif _now() > deadline:
            return True


@function()
def _next(slot: int, share: int) -> int:
    """Return the address of the number of the next piece of a share."""
    return slot + 8 * (NEXT + share * LINE)


@function()
def _end(words: Any, share: int) -> int:
    """Return where the pieces of a share end, and those of the next one begin."""
    end: int = words[PIECES] * (share + 1) // words[SHARES]
    return end


@function()
def _none_left(slot: int) -> bool:
    words = pointer(slot, SLOT_WORDS, np.int64)
    left = 0
    for share in range(words[SHARES]):
        left += max(0, _end(words, share) - load(_next(slot, share)))
    return left == 0


@function()
def _work(slot: int, own: int, deadline: int) -> bool:
    """Do pieces, of share `own` first, until there are none or time is up; return if none."""
    words = pointer(slot, SLOT_WORDS, np.int64)
    grain, shares = words[GRAIN], words[SHARES]
    for turn in range(shares):
        share = (own + turn) % shares
        end = _end(words, share)
        while True:
            first = add(_next(slot, share), grain)
            if first >= end:
                break
            status = call_3(words[CODE], words[BLOCK], first, min(first + grain, end))
            if status:
                at_least(slot + 8 * STATUS, status)
            if deadline and _now() > deadline:
                none_left: bool = _none_left(slot)
                return none_left
    return True


@function()
def _helped(slot: int) -> bool:
    """Join a slot and work there, if it is open and wants helpers."""
    state = load(slot)
    while state & _OPEN and state & _USERS < load(slot + 8 * HELPERS):
        if exchange(slot, state, state + 1):
            # The system may wake a thread on the caller's processor though others are idle, and
            # would go on to do so: the two would work in turns.
            cpu = load(slot + 8 * CPU)
            if cpu == current_cpu():
                leave_cpu(cpu)
            _work(slot, 1 + (state & _USERS), 0)
            before = add(slot, -1)
            if before & _SLEEPS and before & _USERS == 1:
                _wake(slot, 1)
            return True
        state = load(slot)
    return False


@kernel()
def serve(pool: int) -> int:
    """Process pieces of any caller that opens a slot, until the pool ends."""
    while not load(pool + 8 * ENDED):
        rung = load(pool + 8 * BELL)
        helped = False
        for number in range(SLOTS):
            if _helped(pool + 8 * (SLOTS_AT + number * SLOT_WORDS)):
                helped = True
        if helped:
            continue
        if _stays(pool + 8 * BELL, rung):
            add(pool + 8 * ASLEEP, 1)
            # Not if it has been rung since the slots were looked at.
            _wait(pool + 8 * BELL, rung & 0xFFFFFFFF, 0)
            add(pool + 8 * ASLEEP, -1)
    return 0


@kernel()
def run(
    ticket: int, pool: int, code: int, block: int, pieces: int, grain: int, helpers: int,
    shares: int, nanoseconds: int,
) -> int:  # fmt: skip
    """Do pieces of a kernel with helpers; return the greatest status, or NOT_YET.

    Args:
        ticket: the address of a word: the slot as long as it is taken, else 0.
        shares: at most MOST_SHARES. With one, pieces are begun in their order.
        nanoseconds: after about so many, or as soon as the piece in work then is done, it returns
            NOT_YET: `finish` is to be called.
    """
    for number in range(1, SLOTS):
        slot = pool + 8 * (SLOTS_AT + number * SLOT_WORDS)
        if exchange(slot + 8 * OWNER, 0, 1):
            _open(slot, ticket, pool, code, block, 0, pieces, grain, helpers, shares)
            status: int = _finished(ticket, nanoseconds)
            return status
    alone: int = call_3(code, block, 0, pieces)  # as many callers as there are slots
    return alone


@kernel()
def begin(ticket: int, pool: int, code: int, block: int, members: int) -> int:
    """Have helpers do pieces 1 to `members` - 1 of a kernel, in the slot of which there is one.

    The caller does piece 0, and then calls `finish`.
    """
    slot = pool + 8 * SLOTS_AT
    store(slot + 8 * OWNER, 1)
    _open(slot, ticket, pool, code, block, 1, members, 1, members - 1, 1)
    return 0


@kernel()
def take(ticket: int) -> int:
    """Return a piece for the caller to process; 0 if all are assigned."""
    slot = load(ticket)
    piece: int = add(_next(slot, 0), 1)
    return piece if piece < load(slot + 8 * PIECES) else 0


@function()
def _open(
    slot: int, ticket: int, pool: int, code: int, block: int, first: int, pieces: int, grain: int,
    helpers: int, shares: int,
) -> None:  # fmt: skip
    """Write down what is to be done, from piece `first` on, and ring."""
    words = pointer(slot, SLOT_WORDS, np.int64)
    words[CODE], words[BLOCK] = code, block
    words[PIECES], words[GRAIN], words[HELPERS] = pieces, grain, helpers
    words[CPU] = current_cpu()
    words[STATUS], words[SHARES] = 0, shares
    for share in range(shares):
        store(_next(slot, share), _end(words, share - 1) if share else first)
    store(ticket, slot)
    store(slot, (words[STATE] // _TURN * _TURN + _TURN) & _ALL | _OPEN)
    _ring(pool, helpers)


@function()
def _ring(pool: int, helpers: int) -> None:
    """Have threads look for an open slot: those that are awake, and so many that sleep."""
    add(pool + 8 * BELL, 1)
    if load(pool + 8 * ASLEEP):
        _wake(pool + 8 * BELL, helpers)


@kernel()
def ring(pool: int, helpers: int) -> int:
    """Wake helpers before there is work: they look for it for as long as they stay awake."""
    _ring(pool, helpers)
    return 0


@kernel()
def call_each(
    code: int, blocks: Pointer[np.int64], starts: Pointer[np.int64], stopped: int, first: int,
    last: int,
) -> int:  # fmt: skip
    """Call a kernel with the blocks of each of these members, one after another.

    Args:
        blocks: addresses of packed arguments; those of member n are starts[n] .. starts[n+1].
        stopped: the address of a word: no more calls once it is not 0.
    """
    greatest = 0
    for member in range(first, last):
        for k in range(starts[member], starts[member + 1]):
            if load(stopped):
                break
            status = call_3(code, blocks[k], 0, 1)
            greatest = max(greatest, status)
            if status == RAISED:
                store(stopped, 1)
    return greatest


@kernel()
def finish(ticket: int, nanoseconds: int) -> int:
    """Go on with what a ticket is for; see `run`."""
    status: int = _finished(ticket, nanoseconds)
    return status


@function()
def _finished(ticket: int, nanoseconds: int) -> int:
    slot, deadline = load(ticket), _now() + nanoseconds
    if not _work(slot, 0, deadline) or not _closed(slot, deadline):
        return NOT_YET
    status: int = load(slot + 8 * STATUS)
    store(slot + 8 * OWNER, 0)
    store(ticket, 0)
    return status


@kernel()
def stop(ticket: int) -> int:
    """Give out no more pieces; `finish` is to be called all the same."""
    slot = load(ticket)
    for share in range(load(slot + 8 * SHARES)):
        store(_next(slot, share), 1 << 61)
    return 0


@function()
def _closed(slot: int, deadline: int) -> bool:
    """Close a slot and wait until its helpers have left; return whether they have."""
    state = load(slot)
    while state & _OPEN:
        exchange(slot, state, state & ~_OPEN)
        state = load(slot)
    while state & _USERS:
        if not state & _SLEEPS:
            if _stays(slot, state):
                exchange(slot, state, state | _SLEEPS)
        else:
            left = deadline - _now()
            if left <= 0:
                return False
            _wait(slot, state, left)
        state = load(slot)
    return True


@kernel()
def end(pool: int) -> int:
    """Have all threads leave `serve`."""
    store(pool + 8 * ENDED, 1)
    add(pool + 8 * BELL, 1)
    _wake(pool + 8 * BELL, 1 << 30)
    return 0
