"""What a counting engine is, and how a step is driven while it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pgstrata.count.measure.callgrind import CallGraph
from pgstrata.count.measure.marks import Length
from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Failure
from pgstrata.driver.spec import Spec
from pgstrata.errors import DriverError
from pgstrata.workload.core.language import Step

SILENCE_SECONDS = 600.0
"""Longest silence of the driver: one operation may take minutes where the server is executed by valgrind."""


class Engine(Protocol):
    """Counts the instructions of backends.

    name, tool, event: as the results say who counted what. marks: whether steps have to carry them. slow:
    whether the server runs many times slower, so that data are better made without it.
    """

    name: Literal["valgrind", "perf"]
    tool: str
    event: str
    marks: bool
    slow: bool
    simulated: bool

    def under(self, folder: Path) -> Sequence[str]:
        """Returns the command under which the server is executed; its output files go to `folder`."""
        ...

    def count(
        self, step: Step, lengths: Mapping[str, Length], spec: Spec, folder: Path
    ) -> dict[str, CallGraph]:
        """Returns, by role, the counts of all of its counted operations. spec: of the driver. Raises
        DriverError, ServerError."""
        ...

    def processes(self, folder: Path) -> dict[str, float]:
        """Returns the instructions of the server's own processes, once it has ended."""
        ...


class Steering:
    """What happens to a counted step's connections before its operations and after them; nothing, as a
    rule."""

    def ready(self, pids: Mapping[str, int]) -> None:
        """Reacts to open connections and prepared statements, before anything runs; does nothing in this
        class."""

    def done(self) -> None:
        """Reacts to the end of all operations, while connections are still open; does nothing in this
        class."""


def drive(spec: Spec, steering: Steering | None = None) -> dict[str, int]:
    """Lets the driver do a step to its end; the process of the one backend of each role. Raises
    DriverError."""
    steering = steering or Steering()
    with Driver(spec, silence=SILENCE_SECONDS) as driver:
        pids = {role.name: role.pids[0] for role in driver.ready().roles if role.pids}
        steering.ready(pids)
        driver.start()
        failed: DriverError | None = None
        for event in driver.events():
            if isinstance(event, Failure):
                failed = driver_failure(event)
        steering.done()
        driver.close()
    if failed is not None:
        raise failed
    return pids
