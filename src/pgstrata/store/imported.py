"""What run.json holds of figures that other programs measured, imported from their files."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

_Count = Annotated[int, Meta(ge=0)]
_Ordinal = Annotated[int, Meta(ge=1)]
_NotNegative = Annotated[float, Meta(ge=0)]

IMPORTED = "imported"
"""Status of a run that another program measured."""


class ImportedFile(Struct, frozen=True, kw_only=True):
    """A file that figures were read from."""

    name: str
    sha256: str
    bytes: _Count


class ImportedInterval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a step, as the other program reported it while it ran."""

    second: _NotNegative
    """Its beginning, from the start of the step."""
    seconds: _NotNegative
    rate: _NotNegative
    """In the unit of the step."""
    latency_seconds: _NotNegative | None = None
    """Mean response time."""


class ImportedStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of another program: a rate, with what the program says of it."""

    name: str
    unit: str
    """As the program has it: `queries/s`, `NOPM`; `relative to NAME` where a file has ratios only."""
    rate: _NotNegative
    clients: _Ordinal | None = None
    seconds: _NotNegative | None = None
    operations: _Count | None = None
    errors: _Count | None = None
    latency: dict[str, _NotNegative] = {}
    """Response times in seconds: `mean`, `max`, `p95` and the like."""
    figures: dict[str, float] = {}
    """Others, under the names of the file: `cpu/o`, `wKB/o`."""
    intervals: tuple[ImportedInterval, ...] = ()

    @property
    def key(self) -> tuple[str, int | None]:
        """What it measures: steps of other numbers of clients are other steps."""
        return self.name, self.clients


class ImportRecord(Struct, frozen=True, kw_only=True):
    """What a run has imported. `format`: of the files, `tool`: the program, as the files name it."""

    format: str
    tool: str
    files: tuple[ImportedFile, ...]
    steps: tuple[ImportedStep, ...]


__all__ = ["IMPORTED", "ImportRecord", "ImportedFile", "ImportedInterval", "ImportedStep"]
