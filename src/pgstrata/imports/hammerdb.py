"""HammerDB's TPROC-C results: the log of a run, or what `job ID result` and `job ID timing` print."""

from __future__ import annotations

import re
from typing import Any

from pgstrata.files.bounded import BoundError, json_any
from pgstrata.imports.model import FormatError, Found, Lines, number, whole
from pgstrata.store.imported import ImportedStep

_RESULT = re.compile(
    r"TEST RESULT : System achieved (?:(?P<nopm>\d+) NOPM from (?P<tpm>\d+) (?P<db>.+?) TPM"
    r"|(?P<old_tpm>\d+) (?P<old_db>.+?) TPM at (?P<old_nopm>\d+) NOPM)"
)
_USERS = re.compile(r"(\d+) Active Virtual Users configured")
_FAILED = re.compile(r"Vuser \d+:FINISHED FAILED|Error in Virtual User \d+")
_TIMING = {"calls", "avg_ms", "max_ms", "p99_ms", "p95_ms", "p50_ms"}
_TEXTS = {"mean": "avg_ms", "p50": "p50_ms", "p95": "p95_ms", "p99": "p99_ms", "max": "max_ms"}


def fits(file: Lines) -> bool:
    """Returns whether the file has a result line of HammerDB or is the timing of a job."""
    return any("Vuser 1:" in line or "TEST RESULT : " in line for line in file.lines) or (
        file.lines[0].lstrip().startswith("{") and any('"elapsed_ms"' in line for line in file.lines)
    )


def read(file: Lines) -> list[Found]:
    """Returns a step for each result, or for each kind of transaction of a timing. Raises FormatError."""
    if file.lines[0].lstrip().startswith("{"):
        return _timing(file)
    entries, users = [], None
    for at, line in enumerate(file.lines, 1):
        if _FAILED.search(line):
            raise FormatError("a virtual user of HammerDB failed, so its rate is of the others only", at)
        if match := _USERS.search(line):
            users = max(1, whole(match[1], "virtual users", at))
        if match := _RESULT.search(line):
            database = match["db"] or match["old_db"]
            if database != "PostgreSQL":
                raise FormatError(f"a result of {database}, not of PostgreSQL", at)
            nopm = whole(match["nopm"] or match["old_nopm"], "NOPM", at)
            step = ImportedStep(name="new-order", unit="NOPM", rate=float(nopm), clients=users)
            entries.append(Found(step, "tproc-c", "HammerDB"))
    if not entries:
        raise FormatError("HammerDB's line TEST RESULT is missing: the run did not end, or was TPROC-H")
    return entries


def _timing(file: Lines) -> list[Found]:
    """Parses the output of `job ID timing`: calls of all virtual users in the time that it names."""
    try:
        document = json_any("\n".join(file.lines))
    except BoundError as error:
        raise FormatError(f"no JSON as HammerDB writes it: {error}") from None
    if not isinstance(document, dict) or not document:
        raise FormatError("no timing of a job of HammerDB")
    return [Found(_transaction(name, timing), "tproc-c", "HammerDB") for name, timing in document.items()]


def _transaction(name: str, timing: Any) -> ImportedStep:
    if not isinstance(timing, dict) or not _TIMING | {"elapsed_ms"} <= timing.keys():
        raise FormatError(f"{name} has not all figures of a timing of HammerDB")
    values = {key: number(str(value), f"{key} of {name}", 0) for key, value in timing.items()}
    seconds = values["elapsed_ms"] / 1e3
    if seconds <= 0:
        raise FormatError(f"{name} took no time")
    calls = whole(str(timing["calls"]), f"calls of {name}", 0)
    return ImportedStep(
        name=name.lower(),
        unit="calls/s",
        rate=calls / seconds,
        seconds=seconds,
        operations=calls,
        latency={text: values[key] / 1e3 for text, key in _TEXTS.items()},
    )


__all__ = ["fits", "read"]
