"""The emulated device: its streams, events and memory. Queued work runs immediately."""

from __future__ import annotations

import time
from typing import Any

from cupy import counts

# Small enough for small tests to fill it.
PROPERTIES: dict[str, Any] = {
    **{"name": b"none", "totalGlobalMem": 1 << 31, "major": 9, "minor": 0},
    **{"multiProcessorCount": 6, "cooperativeLaunch": 1},
    **{"sharedMemPerBlock": 48 << 10, "sharedMemPerBlockOptin": 100 << 10},
}


class Stream:
    """A queue of work; it runs immediately, unless the stream is capturing."""

    def __init__(self, *, non_blocking: bool = False, ptr: int | None = None) -> None:
        self.capturing: list[Any] | None = None
        self.ptr = id(self) if ptr is None else ptr
        self._may_capture = non_blocking

    def __enter__(self) -> Any:
        streams.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        streams.pop()

    def synchronize(self) -> None:
        counts.waits("synchronize")
        refuse_while_capturing("synchronize")

    def record(self) -> Event:
        event = Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        pass

    def begin_capture(self) -> None:
        if not self._may_capture:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")
        self.capturing = []

    def end_capture(self) -> Any:
        graph, self.capturing = Graph(self.capturing or []), None
        return graph


class Event:
    """An event of a stream; previous work is complete immediately."""

    done = True

    def record(self, stream: Any = None) -> None:
        refuse_while_capturing("record")
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        counts.waits("synchronize")
        refuse_while_capturing("synchronize")


class Graph:
    """Launches with their captured arguments."""

    def __init__(self, launches: list[Any]) -> None:
        self._launches = launches

    def launch(self, stream: Any = None) -> None:
        counts.launches("graph")
        for call, places, shape, _ in self._launches:
            call(places, shape)


streams = [Stream(ptr=0)]


def refuse_while_capturing(what: str) -> None:
    # What a capture makes of these is no launch of ours: cupy refuses cuBLAS and copies from
    # main memory, and an array made meanwhile is gone when the graph runs.
    if streams[-1].capturing is not None:
        raise RuntimeError(f"{what} while a stream is capturing")


class CUDADriverError(RuntimeError):
    """An error of the driver; `status` as in cuda.h."""

    def __init__(self, status: int) -> None:
        super().__init__(f"CUDA_ERROR {status}")
        self.status = status


class driver:
    """Calls of the driver itself."""

    CUDADriverError = CUDADriverError

    @staticmethod
    def occupancyMaxActiveBlocksPerMultiprocessor(
        func: int, blockSize: int, dynamicSMemSize: int
    ) -> int:
        # The guaranteed number, if a block may use all of the shared memory.
        return int(func > 0 and dynamicSMemSize <= PROPERTIES["sharedMemPerBlockOptin"])


class cuda:
    """The device, and its stream."""

    driver = driver

    Stream = Stream
    alloc_pinned_memory = bytearray
    Event = Event

    @staticmethod
    def get_elapsed_time(start: Event, end: Event) -> float:
        return 1e3 * (end.seconds - start.seconds)

    class Device:
        def __init__(self, number: int = 0) -> None:
            self.id = number
            self.compute_capability = "90"

        def synchronize(self) -> None:
            counts.waits("synchronize")

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: Any) -> None:
            pass

        def use(self) -> None:
            pass

    class runtime:
        @staticmethod
        def getDeviceCount() -> int:
            return 1

        @staticmethod
        def getDevice() -> int:
            return 0

        @staticmethod
        def memGetInfo() -> tuple[int, int]:
            return 1 << 30, 1 << 31

        @staticmethod
        def getDeviceProperties(number: int) -> dict[str, Any]:
            return PROPERTIES

        @staticmethod
        def runtimeGetVersion() -> int:
            return 12090

        driverGetVersion = runtimeGetVersion

    @staticmethod
    def get_cublas_handle() -> int:
        return 1

    @staticmethod
    def get_current_stream() -> Any:
        return streams[-1]


class Pool:
    def free_all_blocks(self) -> None:
        pass


def get_default_memory_pool() -> Pool:
    """Return the memory pool, which caches nothing here."""
    return Pool()
