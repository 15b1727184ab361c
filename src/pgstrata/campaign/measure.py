"""One step: the driver makes the load, StepWatch sees what it costs, a step record comes out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgstrata.campaign.record import step_record
from pgstrata.driver import Driver, driver_failure
from pgstrata.errors import DriverError
from pgstrata.observe import StepObserved, StepWatch
from pgstrata.workload.language import Step

Json = dict[str, Any]


def step_seed(seed: int, repeat: int, order: int, name: str) -> int:
    """The seed of one step: the same for every variant, another for every step and repeat.

    Were it the same for every step, the point queries of one would read what those of the step
    before it left in the cache.
    """
    text = f"{seed}/{repeat}/{order}/{name}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


@dataclass
class Measured:
    """What one step gave. `error` says why it ended before its time; the rest is until then."""

    record: Json
    seconds: list[Json]
    histograms: dict[str, str]
    observed: StepObserved
    driver_version: str
    statements: list[Json] = field(default_factory=list)
    error: DriverError | None = None


def driver_spec(
    step: Step,
    connection: Mapping[str, Any],
    seed: int,
    engine: str,
    threads: int = 0,
    results_dir: str | None = None,
) -> Json:
    """The whole spec: what the step says of itself, and where and how it runs."""
    return {
        **step.spec(),
        "version": 1,
        "connection": {**connection, "application_name": "pgstrata"},
        "seed": seed,
        "engine": engine,
        "threads": threads,
        "results_dir": results_dir,
    }


def measure(
    step: Step,
    order: int,
    spec: Json,
    watch: StepWatch,
    *,
    on_second: Callable[[Json], None] = lambda event: None,
) -> Measured:
    """Runs one step to its end and observes it.

    Raises DriverError where nothing was measured; an error in the middle is in `Measured.error`.
    """
    seconds: list[Json] = []
    statements: list[Json] = []
    error: DriverError | None = None
    unix_time, done = time.time(), None
    try:
        with Driver(spec) as driver:
            ready = driver.ready()
            watch.before({role["name"]: role["pids"] for role in ready["roles"]})
            driver.start()
            for event in driver.events():
                match event["event"]:
                    case "measuring":
                        watch.begin()
                        unix_time = float(event["unix_time"])
                    case "second":
                        seconds.append(event)
                        on_second(event)
                    case "statement":
                        statements.append(event)
                    case "error":
                        error = driver_failure(event)
                    case "done":
                        watch.end()
                        done = event
            driver.close()
        # Backends report the last of their statistics when they end: the connections are closed now.
        observed = watch.after()
    finally:
        watch.close()
    assert done is not None  # events() raises where it does not come
    record = step_record(step, order, ready, unix_time, seconds, done, observed)
    record["notes"] = observed.notes
    if error is not None:
        record["error"] = error.message
    histograms = {role["name"]: role["histogram"] for role in done["roles"]}
    return Measured(record, seconds, histograms, observed, str(ready["driver"]), statements, error)
