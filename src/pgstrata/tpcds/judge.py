"""From what the driver recorded to rows of the table `queries`: times, and verdicts on the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgstrata.driver.events import StatementDone
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.tpcds import reference
from pgstrata.tpcds.compare import RightAnswer, compare
from pgstrata.workload.core.language import Digest
from pgstrata.workload.core.recorded import rows_from, rows_of


def judge(
    scale: float, time_limit: float, *, answers: bool
) -> Callable[[Sequence[StatementDone], Path], Digest]:
    """The digest of a power or throughput run."""

    def digest(events: Sequence[StatementDone], folder: Path) -> Digest:
        rows = rows_from(events, folder, time_limit)
        if answers:
            verdicts = _Verdicts(scale)
            for row, event in zip(rows, events, strict=True):
                row["answer"] = verdicts.of(row, folder / str(event.result))
        return Digest(rows, rate=rate_of_queries(rows))

    return digest


class _Verdicts:
    """Verdicts on results; equal ones are read and compared once."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._right: dict[str, RightAnswer | None] = {}
        self._known: dict[tuple[str, str], str] = {}

    def of(self, row: Mapping[str, Any], result: Path) -> str:
        query, digest = row["query"], row["digest"]
        if digest is None:
            return "not run"
        if query not in self._right:
            self._right[query] = reference.answer(self._scale, int(query.removeprefix("q")))
        right = self._right[query]
        if right is None:
            return "not run"
        if (query, digest) not in self._known:
            text = result.read_text(encoding="utf-8", errors="replace")
            self._known[query, digest] = compare(rows_of(text), right)
        return self._known[query, digest]
