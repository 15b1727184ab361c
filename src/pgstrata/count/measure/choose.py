"""Which counting engine this machine has."""

from __future__ import annotations

from typing import Literal

from pgstrata.count.measure.engine import Engine
from pgstrata.count.measure.perf import PerfEngine, counters_missing
from pgstrata.count.measure.valgrind import ValgrindEngine, find_valgrind
from pgstrata.errors import UsageError

EngineName = Literal["auto", "valgrind", "perf"]

INSTALL = "install valgrind (Debian, Ubuntu: apt install valgrind; Fedora: dnf install valgrind)"


def find_engine(name: EngineName = "auto", *, simulate: bool = False) -> Engine:
    """Returns the engine of this name, or for `auto` the engine this machine supports: perf where the
    hardware counts, else valgrind. Raises UsageError if the machine supports neither."""
    missing = "perf does not simulate" if simulate else counters_missing()
    if name == "perf" or (name == "auto" and not missing):
        if missing:
            raise UsageError(f"instructions cannot be counted by perf here: {missing}", INSTALL)
        return PerfEngine()
    valgrind = find_valgrind()
    if valgrind is None:
        reason = "valgrind is not installed" + (f", and {missing}" if name == "auto" else "")
        raise UsageError(f"instructions cannot be counted here: {reason}", INSTALL)
    return ValgrindEngine(valgrind, simulate=simulate)
