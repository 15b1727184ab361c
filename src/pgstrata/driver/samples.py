"""The statements of a step with sample values, as the driver makes them (`pgstrata-driver sample`)."""

from __future__ import annotations

import subprocess

import msgspec

from pgstrata.driver.client import decode, driver_failure
from pgstrata.driver.events import Failure
from pgstrata.driver.path import find_driver
from pgstrata.driver.spec import StepSpec
from pgstrata.errors import DriverError

SECONDS = 30.0
"""Longest time for all samples of one step."""


class Prepared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement as it is prepared: text with `$1`, `$2`, …, and for each the type that is declared
    (`unknown` where the server finds it out) and a sample value as text, None for NULL.
    """

    text: str
    types: tuple[str, ...]
    values: tuple[str | None, ...]


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement with sample values. name: as in `statements_by_name`; sql: complete, without `;`.

    prepared: None for a statement that the step does not run as a prepared one.
    """

    role: str
    name: str
    sql: str
    prepared: Prepared | None = None


_SAMPLE = msgspec.json.Decoder(Sample)


def samples(spec: StepSpec) -> list[Sample]:
    """Returns the statements of a step's spec that have a plan, each once.

    A sample has the middle of every distribution, so it is the same for every version. Raises DriverError
    for a spec that the driver refuses, PgstrataError when there is no driver.
    """
    asked = msgspec.json.encode({"roles": spec.roles, "shared": spec.shared})
    command = [str(find_driver()), "sample"]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DriverError(f"the driver made no sample statements: {error}") from error
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        if lines:
            raise _refused(lines[0])
        raise DriverError(
            f"the driver ended with code {done.returncode}", done.stderr.decode(errors="replace")
        )
    return [_SAMPLE.decode(line) for line in lines]


def _refused(line: bytes) -> DriverError:
    event = decode(line)
    assert isinstance(event, Failure)
    return driver_failure(event)
