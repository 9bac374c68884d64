"""Rows through shared memory, if lod is at both ends of a pipe. docs/stream.md, section 13.

The reader of a stream listens on a socket named after its pipe. The writer looks for that socket
before every block of rows; until there is one, rows go through the pipe. Then it sends memory
over the socket, copies each block of rows into a free slot of it, and writes a SHARED frame that
names the slot into the pipe. The reader copies the rows out, and returns the slot over the socket.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.platform import shared_memory as memory
from lodcli.kernels.runtime.memory_budget import at_most

if TYPE_CHECKING:
    import socket

SLOT_BYTES = 2 << 20
SLOTS = 16
# All slots together take at most 1 / this of the memory budget.
BUDGET_SHARE = 16
# The most shared memory that a reader accepts.
MOST_BYTES = 1 << 30

_PURPOSE = "lod-stream-1"
# token, number of slots, bytes of a slot; sent with the memory
OFFER = struct.Struct("<8sII")
# token, slot, bytes in it
REFERENCE = struct.Struct("<8sII")
_SLOT = struct.Struct("<I")


class SharedWriter:
    """Sends rows through shared memory, for the process that writes to a pipe.

    Args:
        pipe: its descriptor; for anything but a pipe `send` always returns None.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._socket: socket.socket | None = None
        self._token = os.urandom(8)
        self._slots = at_most(SLOTS * SLOT_BYTES, BUDGET_SHARE) // SLOT_BYTES
        self._free = list(range(self._slots))
        self._address = memory.pipe_address(pipe, _PURPOSE) if self._slots > 1 else None

    def send(self, block: Bytes) -> bytes | None:
        """Copy a block of rows into shared memory; waits for a free slot.

        Args:
            block: (N,) with N from 1 to SLOT_BYTES.

        Returns:
            The payload of its SHARED frame; None if the rows have to go through the pipe.
        """
        if self._address is None or not (self._socket or self._connect(self._address)):
            return None
        if not self._take_back():
            self.close()
            return None
        # The slot returned last, which may still be in a CPU cache.
        slot = self._free.pop()
        self._memory[slot * SLOT_BYTES :][: block.size] = block
        return REFERENCE.pack(self._token, slot, block.size)

    def close(self) -> None:
        """Send all further rows through the pipe."""
        self._address = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self, address: bytes) -> bool:
        """Connect to the reader of the pipe and send it the memory; return whether it worked."""
        try:
            found = memory.connected(address)
        except OSError:  # no such reader, or not yet
            return False
        self._socket = found
        offer = OFFER.pack(self._token, self._slots, SLOT_BYTES)
        try:
            block = memory.send_memory(found, offer, self._slots * SLOT_BYTES)
        except (OSError, ValueError):
            self.close()
            return False
        self._memory: Bytes = np.frombuffer(block, np.uint8)
        return True

    def _take_back(self) -> bool:
        """Receive all slots that the reader returned; wait for one if none is free.

        Returns:
            False if none is free because the reader has ended, or violates the protocol.
        """
        assert self._socket is not None
        waited = False
        while True:
            try:
                (slot,) = _SLOT.unpack(self._socket.recv(_SLOT.size))
            except BlockingIOError:
                if self._free or waited:
                    return bool(self._free)
                memory.wait(self._socket, self._pipe)
                waited = True
                continue
            except (OSError, struct.error):
                return False
            if slot >= self._slots or slot in self._free:
                return False
            self._free.append(slot)


class SharedReader:
    """Receives rows from shared memory, for the process that reads from a pipe.

    Attributes:
        used: whether a writer sent rows through shared memory.
    """

    def __init__(self, pipe: int) -> None:
        self.used = False
        self._listener: socket.socket | None = None
        self._socket: socket.socket | None = None
        self._file = -1
        address = memory.pipe_address(pipe, _PURPOSE)
        if address is not None:
            with contextlib.suppress(OSError):  # another reader listens; or it is not allowed
                self._listener = memory.listening(address)

    @property
    def listens(self) -> bool:
        """Whether a writer can send rows through shared memory."""
        return self._listener is not None

    def size_bytes(self, payload: bytes) -> int:
        """Return how many bytes of rows the payload of a SHARED frame refers to.

        Raises:
            DamagedFileError: the payload is not a reference to memory that the writer sent.
        """
        if not self.used:
            self._accept()
        if len(payload) != REFERENCE.size:
            raise DamagedFileError(f"expected {REFERENCE.size} bytes, found {len(payload)}")
        token, slot, size = REFERENCE.unpack(payload)
        if token != self._token or slot >= self._slots or not 0 < size <= self._slot_bytes:
            raise DamagedFileError("refers to shared memory that its writer did not send")
        return int(size)

    def receive(self, payload: bytes, out: Bytes) -> None:
        """Copy the rows that the payload of a SHARED frame refers to, and free their slot.

        Raises:
            DamagedFileError: they were never written.
        """
        _, slot, _ = REFERENCE.unpack(payload)
        start = slot * self._slot_bytes
        if start + out.size > self._written.get(slot, 0):
            self._written[slot] = memory.written(self._file, start)
            if start + out.size > self._written[slot]:
                raise DamagedFileError("refers to shared memory that was not written")
        out[:] = self._memory[start : start + out.size]
        assert self._socket is not None
        with contextlib.suppress(OSError):  # the writer has ended
            self._socket.send(_SLOT.pack(slot))

    def close(self) -> None:
        """Stop listening, and release the memory."""
        for one in (self._listener, self._socket):
            if one is not None:
                one.close()
        self._listener = self._socket = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        # Not every source of a stream is closed before it is garbage-collected.
        self.close()

    def _accept(self) -> None:
        """Receive and map the memory, which the writer sent before its first SHARED frame."""
        assert self._listener is not None
        try:
            self._socket = memory.accepted(self._listener)
            offer, self._file, size = memory.received_memory(self._socket, OFFER.size)
            self._token, self._slots, self._slot_bytes = OFFER.unpack(offer)
        except (OSError, struct.error) as error:
            raise DamagedFileError(
                f"refers to shared memory that was not received ({error}); the stream was written "
                "for another reader of the pipe"
            ) from error
        if not 0 < self._slots * self._slot_bytes == size <= MOST_BYTES:
            raise DamagedFileError(
                f"refers to {size} bytes of shared memory; expected {self._slots} slots of "
                f"{self._slot_bytes}, at most {MOST_BYTES} bytes"
            )
        self._memory: Bytes = np.frombuffer(memory.mapped(self._file, size), np.uint8)
        # By slot: the position in the memory up to which it was written.
        self._written: dict[int, int] = {}
        self.used = True
