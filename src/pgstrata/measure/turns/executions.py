"""Executions of a replay's statements, done again with their values on each variant.

All clusters are up with the data that the rounds began with. Each execution is done by the replay's role,
with what its session had set, and cancelled where it takes too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from pgstrata.driver.events import StatementDone
from pgstrata.errors import DriverError
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.statement import Statement
from pgstrata.workload.core.language import Sql, Step
from pgstrata.workload.core.queries import READ_ONLY, limited_to, query_step

LIMIT_SECONDS = 30.0
"""After which an execution is cancelled."""

OTHER_PLANS = (
    *(f"SET enable_{name} = off" for name in ("hashagg", "hashjoin", "indexscan", "indexonlyscan")),
    "SET enable_bitmapscan = off",
    "SET max_parallel_workers_per_gather = 0",
    "SET work_mem = '64kB'",
)
"""Under which another order of rows is likely."""

T = TypeVar("T")


class Execution(NamedTuple):
    """A statement with the values of one of its executions. place: among those of the statement."""

    statement: Statement
    place: int


Texts = Mapping[Execution, Sequence[str]]
"""By execution what is sent for it, one text after the other."""


@dataclass(frozen=True)
class Asking:
    """Executes statements on all variants of a step. settings: of the log, by statement."""

    group: Group
    step: Step
    settings: Mapping[Statement, Sequence[str]]

    def ask(
        self,
        texts: Texts,
        more: Sequence[str],
        keep: Callable[[Sequence[StatementDone], Path], T],
        *,
        reads_only: bool = True,
    ) -> dict[str, dict[Execution, T]]:
        """Executes the texts of each execution and returns what is kept of them by the label of each
        participant.

        more: settings beside those of the log; keep: called with what was done of an execution and the folder
        of the rows; reads_only: the server holds them to it.
        """
        by_settings: dict[tuple[str, ...], dict[str, Execution]] = {}
        for each in texts:
            name = f"{each.statement.number} {each.place}"
            by_settings.setdefault(tuple(self.settings[each.statement]), {})[name] = each
        asked: dict[str, dict[Execution, T]] = {side.label: {} for side in self.group.here}
        for own_settings, by_name in by_settings.items():
            named = [(name, text) for name, each in by_name.items() for text in texts[each]]
            step = self._made(named, (*own_settings, *more), reads_only=reads_only)
            for side in self.group.here:
                self.group.interrupts.check()
                if side.measurement is None or side.error is not None:
                    continue
                with side.measurement.scratch("rows") as rows:
                    try:
                        done = side.measurement.execute(step, rows)
                    except DriverError:
                        self.group.attempt(side, Participant.accepts_connections)
                        continue
                    events: dict[Execution, list[StatementDone]] = {}
                    for event in done.statements:
                        events.setdefault(by_name[event.name], []).append(event)
                    asked[side.label] |= {each: keep(own_events, rows) for each, own_events in events.items()}
        return asked

    def _made(self, texts: Sequence[tuple[str, str]], settings: Sequence[str], *, reads_only: bool) -> Step:
        """Returns a step of one session that executes each text once."""
        start = [Sql.verbatim(text, name="setting") for text in settings]
        single_step = query_step(
            self.step.name,
            [[Sql.verbatim(text, name=name, record=True, on_error="record") for name, text in texts]],
            LIMIT_SECONDS,
            group=self.step.group,
            measured=False,
            start=[*start, *([READ_ONLY] if reads_only else []), limited_to(LIMIT_SECONDS)],
            reads_only=reads_only,
        )
        return replace(single_step, confined=self.step.confined)


__all__ = ["LIMIT_SECONDS", "OTHER_PLANS", "Asking", "Execution", "Texts"]
