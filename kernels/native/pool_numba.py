"""Compiled worker loop of the pool, which runs without the interpreter.

A pool is an array of words. Threads started by Python run `serve`, and sleep on the words of their
states. A caller claims one of a few slots, stores its task there and rings: it changes the word
`bell` and wakes some threads that sleep. Workers that find an open slot join it, process pieces
until none are left, and leave; the caller does the same, closes the slot and waits until all
workers have left. Only workers that joined a slot read its task.

Each thread processes the pieces of its own share in order, then steals from other shares. So a
thread mostly processes the same pieces in every run, whose data is still in its cache.

Words of a slot that several threads write are changed by atomic instructions. The state of a slot
holds its number of helpers, whether it is open, whether its caller sleeps, and a generation number,
so that no thread joins a slot that was reopened in the meantime (ABA problem).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import function, pointer
from lodcli.kernels.native.linking.library import RAISED
from lodcli.kernels.native.system_numba import (
    add,
    allow_cpu,
    at_least,
    call_3,
    clock_gettime,
    current_cpu,
    exchange,
    futex,
    load,
    pause,
    stack_words,
    store,
)

# Words of a pool, one cache line each; then its slots, the first of them for teams; then its
# threads.
BELL, ASLEEP, ENDED, COUNT, SLOTS_AT = 0, 8, 16, 17, 24
SLOTS = 8
# Words of a slot: state, owner and task; on separate cache lines the words that change often, the
# next piece of each share.
STATE, OWNER, CODE, BLOCK, PIECES, GRAIN, HELPERS = range(7)
STATUS, SHARES, NEXT, LINE = 8, 9, 16, 8
MOST_SHARES = 16
SLOT_WORDS = NEXT + MOST_SHARES * LINE
THREADS_AT = SLOTS_AT + SLOTS * SLOT_WORDS
# Words of a thread: its number in the system, and its state; that of a thread that was woken, and
# may not run on processor n until it has begun, is _NOT_ON + n.
THREAD_WORDS, MOST_THREADS = 2, 1 << 10
_AWAKE, _WAKING, _SLEEPING, _NOT_ON = range(4)
# How many threads a caller keeps off its processor, which takes it 1.2 us for each.
_MOST_KEPT_OFF = 16
WORDS = THREADS_AT + THREAD_WORDS * MOST_THREADS

# A state has 31 bits: futex compares 32.
_USERS, _OPEN, _SLEEPS, _TURN, _ALL = (1 << 12) - 1, 1 << 12, 1 << 13, 1 << 14, (1 << 31) - 1

# : Returned by `run` and `finish` when the time limit passed before all pieces were done.
NOT_YET = -(1 << 62)
# How long a thread spins before it sleeps: docs/decisions/0022. It reads the clock once per this
# many pauses.
_AWAKE_NANOSECONDS = 100_000
_PAUSES = 32
_WAIT, _WAKE = 128, 129  # futex operations, private to this process
_NANO = 1_000_000_000


@function()
def _wait(word: int, value: int, nanoseconds: int) -> None:
    """Sleep while a word is `value`, up to a time limit (0: none); may return early."""
    limit = stack_words(2)
    until = pointer(limit, 2, np.int64)
    until[0], until[1] = nanoseconds // _NANO, nanoseconds % _NANO
    futex(word, _WAIT, value, limit if nanoseconds else 0)


@function()
def _wake(word: int) -> None:
    """Wake the thread that sleeps on a word."""
    futex(word, _WAKE, 1, 0)


@function()
def _now() -> int:
    """Return nanoseconds of the monotonic clock."""
    place = stack_words(2)
    clock_gettime(1, place)
    time = pointer(place, 2, np.int64)
    now: int = time[0] * _NANO + time[1]
    return now


@function()
def _stays(word: int, value: int) -> bool:
    """Spin while a word is `value`; return whether it still is when spinning times out."""
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
    """Return the address of a share's next piece."""
    return slot + 8 * (NEXT + share * LINE)


@function()
def _end(words: Any, share: int) -> int:
    """Return the end of a share's pieces, where those of the next share begin."""
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
    """Process pieces, of share `own` first, until none are left or time is up; return whether none
    are left."""
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
    """Join a slot that is open and needs helpers, and work there."""
    state = load(slot)
    while state & _OPEN and state & _USERS < load(slot + 8 * HELPERS):
        if exchange(slot, state, state + 1):
            _work(slot, 1 + (state & _USERS), 0)
            before = add(slot, -1)
            if before & _SLEEPS and before & _USERS == 1:
                _wake(slot)
            return True
        state = load(slot)
    return False


@function()
def _sleep(pool: int, thread: int, rung: int) -> None:
    """Sleep until a caller wakes this thread; not if the bell has rung since `rung`."""
    state = thread + 8
    add(pool + 8 * ASLEEP, 1)
    exchange(state, _AWAKE, _SLEEPING)
    # Written, not read, so that a caller that rings later sees the state.
    if add(pool + 8 * BELL, 0) == rung or not exchange(state, _SLEEPING, _AWAKE):
        while load(state) == _SLEEPING:
            _wait(state, _SLEEPING, 0)
        while load(state) == _WAKING:
            pause()
        if load(state) >= _NOT_ON:
            allow_cpu(0, load(state) - _NOT_ON, True)
            store(state, _AWAKE)
    add(pool + 8 * ASLEEP, -1)


@kernel()
def serve(pool: int, number: int) -> int:
    """Process pieces of any caller that opens a slot, until the pool ends.

    Args:
        number: the number of this thread in the system.
    """
    thread = pool + 8 * (THREADS_AT + THREAD_WORDS * add(pool + 8 * COUNT, 1))
    store(thread, number)
    while not load(pool + 8 * ENDED):
        rung = load(pool + 8 * BELL)
        helped = False
        for number in range(SLOTS):
            if _helped(pool + 8 * (SLOTS_AT + number * SLOT_WORDS)):
                helped = True
        if helped:
            continue
        if _stays(pool + 8 * BELL, rung):
            _sleep(pool, thread, rung)
    return 0


@kernel()
def run(
    ticket: int, pool: int, code: int, block: int, pieces: int, grain: int, helpers: int,
    shares: int, nanoseconds: int,
) -> int:  # fmt: skip
    """Process the pieces of a kernel with helpers; return the greatest status, or NOT_YET.

    Args:
        ticket: the address of a word, set to the slot while it is in use, else 0.
        shares: at most MOST_SHARES. With one, pieces begin in order.
        nanoseconds: time limit; after it, and the piece in progress, NOT_YET is returned, and
            `finish` must be called.
    """
    for number in range(1, SLOTS):
        slot = pool + 8 * (SLOTS_AT + number * SLOT_WORDS)
        if exchange(slot + 8 * OWNER, 0, 1):
            _open(slot, ticket, pool, code, block, 0, pieces, grain, helpers, shares)
            status: int = _finished(ticket, nanoseconds)
            return status
    alone: int = call_3(code, block, 0, pieces)  # as many concurrent callers as slots
    return alone


@kernel()
def begin(ticket: int, pool: int, code: int, block: int, members: int) -> int:
    """Let helpers process pieces 1 to `members` - 1 of a kernel, in a slot of its own.

    The caller processes piece 0, then calls `finish`.
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
    """Store the task in the slot, starting at piece `first`, and ring."""
    words = pointer(slot, SLOT_WORDS, np.int64)
    words[CODE], words[BLOCK] = code, block
    words[PIECES], words[GRAIN], words[HELPERS] = pieces, grain, helpers
    words[STATUS], words[SHARES] = 0, shares
    for share in range(shares):
        store(_next(slot, share), _end(words, share - 1) if share else first)
    store(ticket, slot)
    store(slot, (words[STATE] // _TURN * _TURN + _TURN) & _ALL | _OPEN)
    _ring(pool, helpers)


@function()
def _ring(pool: int, helpers: int) -> None:
    """Notify workers of an open slot: those awake, and up to this many sleeping ones.

    The system may wake a thread on the processor of the caller although others are idle, and then
    it waits for the caller, for milliseconds: so it may not run there. See docs/decisions/0022.
    """
    add(pool + 8 * BELL, 1)
    cpu, woken = current_cpu(), 0
    for number in range(load(pool + 8 * COUNT) if load(pool + 8 * ASLEEP) else 0):
        thread = pool + 8 * (THREADS_AT + THREAD_WORDS * number)
        state = thread + 8
        if woken == helpers:
            break
        if load(state) != _SLEEPING or not exchange(state, _SLEEPING, _WAKING):
            continue
        kept = woken < _MOST_KEPT_OFF and cpu >= 0 and allow_cpu(load(thread), cpu, False)
        store(state, _NOT_ON + cpu if kept else _AWAKE)
        _wake(state)
        woken += 1


@kernel()
def ring(pool: int, helpers: int) -> int:
    """Wake helpers before there is work; they look for it until they go back to sleep."""
    _ring(pool, helpers)
    return 0


@kernel()
def call_each(
    code: int, blocks: Pointer[np.int64], starts: Pointer[np.int64], stopped: int, first: int,
    last: int,
) -> int:  # fmt: skip
    """Call a kernel for the blocks of each of these members, one after another.

    Args:
        blocks: addresses of packed arguments; member n has starts[n] .. starts[n+1].
        stopped: the address of a word; calls stop once it is not 0.
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
    """Continue the task of a ticket; see `run`."""
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
    """Assign no more pieces; `finish` must still be called."""
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
    """Make all threads leave `serve`."""
    store(pool + 8 * ENDED, 1)
    _ring(pool, MOST_THREADS)
    return 0
