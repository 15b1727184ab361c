"""From what the driver recorded to rows of the table `queries`: times, and verdicts on the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pgstrata.driver.events import StatementDone
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.tpc import reference
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.compare import RightAnswer, compare
from pgstrata.workload.core.language import Digest
from pgstrata.workload.core.recorded import rows_from, rows_of


def judge(
    benchmark: Benchmark, scale: float, time_limit: float, *, answers: bool, state: str = ""
) -> Callable[[Sequence[StatementDone], Path], Digest]:
    """Returns the digest of a power or throughput run. state: of the data, as `reference.answer` has it."""

    def digest(events: Sequence[StatementDone], folder: Path) -> Digest:
        rows = rows_from(events, folder, time_limit)
        if answers:
            verdicts = _Verdicts(benchmark, scale, state)
            for row, event in zip(rows, events, strict=True):
                row["answer"] = verdicts.of(row, folder / str(event.result))
        return Digest(rows, rate=rate_of_queries(rows))

    return digest


class _Verdicts:
    """Verdicts on results; equal ones are read and compared once."""

    def __init__(self, benchmark: Benchmark, scale: float, state: str) -> None:
        self._answer = partial(reference.answer, benchmark, scale, state=state)
        self._right: dict[str, RightAnswer | None] = {}
        self._known: dict[tuple[str, str], str] = {}

    def of(self, row: Mapping[str, Any], result: Path) -> str:
        query, digest = row["query"], row["digest"]
        if digest is None:
            return "not run"
        if query not in self._right:
            self._right[query] = self._answer(int(query.removeprefix("q")))
        right = self._right[query]
        if right is None:
            return "not run"
        if (query, digest) not in self._known:
            text = result.read_text(encoding="utf-8", errors="replace")
            self._known[query, digest] = compare(rows_of(text), right)
        return self._known[query, digest]
