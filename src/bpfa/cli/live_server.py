"""Serves the page of a stream of frames to this computer, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from bpfa.report.live import LivePage

__all__ = ["ADDRESS", "serving"]

ADDRESS = "127.0.0.1"
"""The loopback address, which other computers cannot reach."""
PICTURES = {f"/{name}.png": name for name in ("frame", "seen", "std", "dictionary")}


@contextmanager
def serving(page: LivePage, port: int) -> Iterator[str]:
    """Serve a page while the block runs, and return its address.

    Parameters
    ----------
    page : LivePage
    port : int
        0 for any port that is free.
    """

    class Handler(_Handler):
        shown = page

    try:
        server = ThreadingHTTPServer((ADDRESS, port), Handler)
    except OSError as error:
        raise ValueError(
            f"--port {port}: cannot be used ({error.strerror}); expected a free port, or 0"
        ) from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{ADDRESS}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers requests for the page, its numbers and its pictures."""

    shown: LivePage

    def do_GET(self) -> None:
        """Answer a request."""
        path = self.path.partition("?")[0]
        server: Any = self.server
        # Pages of other sites, whose names may lead to this address, must not read what is shown.
        own = [f"{name}:{server.server_port}" for name in (ADDRESS, "localhost")]
        if self.headers.get("Host") not in own:
            self._answer(403, "text/plain", b"not for other sites")
        elif path == "/":
            self._answer(200, "text/html; charset=utf-8", self.shown.html().encode())
        elif path == "/state.json":
            self._answer(200, "application/json", json.dumps(self.shown.state()).encode())
        elif path in PICTURES and (picture := self.shown.picture(PICTURES[path])) is not None:
            self._answer(200, "image/png", picture)
        else:
            self._answer(404, "text/plain", b"not found")

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing for a request."""
