"""A user's scripts in pgbench's language: their names with weights, their texts, and what the driver's own
reader finds wrong in them before anything is started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from pgstrata.driver.samples import samples
from pgstrata.errors import DriverError, UsageError
from pgstrata.files.user_files import is_file, read_text, user_path
from pgstrata.workload.core.language import PgbenchScript, Step
from pgstrata.workload.core.options import OneOrMore

MOST_WEIGHT = 2**31 - 1
"""Of a script, as in pgbench."""

MOST_SCRIPT_BYTES = 16 << 20
"""Of a script of the user."""

RETRIED = ("40001", "40P01")
"""Failures after which pgbench tries a transaction again, where it is told to."""


def beside(name: str, info: ValidationInfo) -> str:
    """Returns the path of a file beside the campaign if its folder is given as context["folder"], else the
    name unchanged."""
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / user_path(name)) if folder else name


def weighted(text: str) -> tuple[str, int]:
    """Returns name and weight of `name@weight`; the weight is 1 if none is given.

    A file that has an @ in its name is found by its whole name. ValueError says what is wrong.
    """
    name, at, weight = text.rpartition("@")
    if not at or is_file(Path(text)):
        return text, 1
    if not name:
        raise ValueError(f"{text!r} names nothing before its weight")
    if not re.fullmatch("[0-9]+", weight):
        raise ValueError(f"the weight {weight[:20]!r} of {name!r} is not a whole number from 0 on")
    if len(weight) > 10 or int(weight) > MOST_WEIGHT:
        raise ValueError(f"the weight {weight[:20]} of {name!r} is out of range (0 to {MOST_WEIGHT})")
    return name, int(weight)


def _named(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    paths = tuple(beside(name, info) for name in value)
    for text in paths:
        weighted(text)
    return paths


Scripts = Annotated[tuple[str, ...], OneOrMore, AfterValidator(_named), Field(max_length=1000)]
"""Names of scripts with their weights, `mine.sql@3`; `weighted` takes them apart."""


def _checked_names(value: dict[str, int | float | str]) -> dict[str, int | float | str]:
    for name in value:
        if not re.fullmatch(r"\w+", name):
            raise ValueError(f"{name!r} is not a name of a variable: letters, digits and _ only")
    return value


Variables = Annotated[dict[str, int | float | str], AfterValidator(_checked_names)]
"""Of scripts, as pgbench's -D name=value."""


def read_scripts(names: Sequence[str]) -> list[PgbenchScript]:
    """Returns the scripts `file@weight` without those of weight 0. Raises UsageError for a file that cannot
    be read, and if all scripts have the weight 0."""
    scripts = []
    for name, weight in map(weighted, names):
        text = read_text(Path(name), "script", most=MOST_SCRIPT_BYTES)
        if weight:
            scripts.append(PgbenchScript(text, name, weight))
    if names and not scripts:
        raise UsageError("All scripts have the weight 0.", "Give at least one a weight, as in `mine.sql@1`.")
    return scripts


def stems(names: Sequence[str]) -> str:
    """Returns the name of a step of these scripts: the files' names without ending, those of weight 0 left
    out."""
    return "+".join(Path(name).stem for name, weight in map(weighted, names) if weight)


def check_scripts(step: Step) -> None:
    """Raises UsageError where the driver would not read a script of the step, with file and line."""
    try:
        samples(step.spec())
    except DriverError as error:
        if error.kind not in ("script", "spec"):
            raise
        raise UsageError(error.message, error.hint) from error


__all__ = ["RETRIED", "Scripts", "Variables", "beside", "check_scripts", "read_scripts", "stems", "weighted"]
