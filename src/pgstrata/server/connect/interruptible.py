"""A session of the administrator's: one that ends when it is told to."""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen

_CANCEL_SECONDS = 1.0


class Session(psycopg.Connection[Any]):
    """Whatever interrupts a statement also ends it in the server, and the session with it."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Waits as psycopg's `wait` does; an exception that is no Exception (a signal made into one) does not
        wait for the server."""
        try:
            return super().wait(gen, interval, timeout)
        except Exception:
            raise
        except BaseException:
            with contextlib.suppress(Exception):
                self.cancel_safe(timeout=_CANCEL_SECONDS)
            self.close()
            raise


__all__ = ["Session"]
