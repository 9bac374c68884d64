"""An HTTP server for tests: it counts requests, and fails on demand."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server sends.

    Attributes:
        status: of HTTP.
        headers: beside Content-Length.
        body: the bytes.
        cut: how many bytes of the body come before the connection is closed; None: all.
        announced: whether Content-Length is sent.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    cut: int | None = None
    announced: bool = True


@dataclass
class Server:
    """A server of some objects.

    Attributes:
        objects: by path, such as "/words.jsonl", their bytes.
        url: of the server, without a path.
        change: may return another reply than the right one; is given the number of the request.
        ranges: the ranges that were asked for; None for a request without any.
        paths: that were asked for.
        headers: of the last request.
        sent: bytes of all bodies.
    """

    objects: dict[str, bytes]
    url: str = ""
    change: Callable[[int, Reply], Reply] = lambda number, reply: reply
    ranges: list[tuple[int, int] | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    sent: int = 0

    def reply(self, path: str, asked: str | None) -> Reply:
        """Return the right reply."""
        if path not in self.objects:
            return Reply(404, {}, b"no such thing")
        whole = self.objects[path]
        tag = {"ETag": f'"{hash(whole):x}"'}
        if asked is None:
            return Reply(200, tag, whole)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        assert found
        start, stop = int(found[1]), int(found[2] or len(whole) - 1) + 1
        if start >= len(whole):
            return Reply(416, {**tag, "Content-Range": f"bytes */{len(whole)}"}, b"")
        part = whole[start:stop]
        place = f"bytes {start}-{start + len(part) - 1}/{len(whole)}"
        return Reply(206, {**tag, "Content-Range": place}, part)


@contextmanager
def serving(**objects: bytes) -> Iterator[Server]:
    """Serve objects of these names."""
    served = Server({f"/{name}": data for name, data in objects.items()})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            served.headers = dict(self.headers)
            served.paths.append(self.path)
            place = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "")
            served.ranges.append((int(place[1]), int(place[2] or -1)) if place else None)
            right = served.reply(self.path.partition("?")[0], asked)
            reply = served.change(len(served.ranges), right)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.announced:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: reply.cut])
            served.sent += len(reply.body[: reply.cut])
            if reply.cut is not None or not reply.announced:
                self.close_connection = True

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # the client closed the connection

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
