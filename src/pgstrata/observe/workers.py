"""How many parallel workers a server had at the same time, by the titles of its processes.

They live for fractions of a second, and the server counts those that it launched from 18 on only.
"""

from __future__ import annotations

import threading

from pgstrata.observe.backends import children, read_small

EVERY_SECONDS = 0.02

_TITLE, _WORKER = b"postgres:", b"parallel worker for"


class WorkerCount:
    """Watches the children of a server from `start` to `stop`; nothing without one. About 50 µs a look."""

    def __init__(self, postmaster: int | None) -> None:
        self._postmaster, self._over = postmaster, threading.Event()
        self._thread: threading.Thread | None = None
        self._known: dict[int, bool] = {}
        self.most: int | None = None
        """Most that were seen at one time; None where nobody has looked."""

    def start(self) -> None:
        """Begins to look, on a thread of its own."""
        if self._postmaster is not None:
            self._thread = threading.Thread(target=self._run, name="pgstrata-workers", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends it. May be called again."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(EVERY_SECONDS)

    def look(self) -> None:
        """Counts the workers that are there now."""
        assert self._postmaster is not None
        there = children(self._postmaster)
        self._known = {pid: known for pid in there if (known := self._known.get(pid)) is not None}
        for pid in set(there) - self._known.keys():
            title = read_small(f"/proc/{pid}/cmdline") or b""
            if title.startswith(_TITLE):  # which it has a moment after it was forked
                self._known[pid] = _WORKER in title
        self.most = max(self.most or 0, sum(self._known.values()))


__all__ = ["WorkerCount"]
