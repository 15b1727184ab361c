"""Recognises a tuning study in the runs of a campaign: one base stack of config files, and overlays upon it.

A *set-up* is a server, a first config file and a workload (`pg17.11, cached-by-pg, 4-clients`). Its base
is the variant whose stack is that config file alone; its overlays are those with more behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgstrata.judge.compare import compare_all
from pgstrata.judge.tuning import Overlay, RelativeRate, StudyTable, next_configs, study
from pgstrata.store import Run
from pgstrata.store.choose import Side

JUDGED = "l.i1"
"""The write-heavy step of the Insert Benchmark, by which the published study judges."""


@dataclass(frozen=True)
class TuningStudy:
    """A study with its table. `steps`: what each workload was judged by. `servers`: their specs."""

    table: StudyTable
    steps: dict[str, str]
    servers: tuple[str, ...]
    bases: tuple[str, ...]
    overlays: tuple[Overlay, ...]

    def next_stacks(self) -> list[tuple[str, ...]]:
        """Returns the config stacks to run next: each base alone, with each winner, and with all of them."""
        return [
            stack for base in self.bases for stack in next_configs((base,), self.overlays, self.table.next)
        ]


def tuning_study(runs: Sequence[Run], step: str | None = None) -> TuningStudy | None:
    """Returns the study in these runs of one campaign; None if no base has two overlays.

    step: judged in every workload; by default l.i1, or the first measured step of a workload without it.
    """
    done = [run for run in runs if run.done and _stack(run)]
    groups: dict[tuple[str, str], dict[tuple[str, ...], list[Run]]] = {}
    for run in done:
        stack = _stack(run)
        groups.setdefault((_server(run), stack[0]), {}).setdefault(stack[1:], []).append(run)
    groups = {key: stacks for key, stacks in groups.items() if () in stacks and len(stacks) > 2}
    if not groups:
        return None
    several = len({server for server, _ in groups}) > 1
    rates: dict[str, dict[str, RelativeRate]] = {}
    overlays: dict[str, Overlay] = {}
    judged: dict[str, str] = {}
    for (server, first), stacks in groups.items():
        for rest, stack_runs in stacks.items():
            if rest:
                name = "+".join(rest)
                overlays.setdefault(name, Overlay(name, stack_runs[0].settings(), rest))
        for workload in dict.fromkeys(run.workload for run in stacks[()]):
            chosen = _judged([run for run in stacks[()] if run.workload == workload], step)
            if chosen is None:
                continue
            judged[workload] = chosen
            set_up = ", ".join([*([server] if several else []), first, workload])
            rates[set_up] = _rates(stacks, workload, chosen)
    if not rates:
        return None
    base_settings = next(iter(groups.values()))[()][0].settings()
    # Settings are compared within one set-up: an overlay changes the same ones in all of them.
    names = next(iter(groups.values()))
    known = tuple(o for o in overlays.values() if tuple(o.config_files) in names)
    return TuningStudy(
        study(base_settings, known, rates),
        judged,
        tuple(dict.fromkeys(run.record.server.spec for run in done)),
        tuple(dict.fromkeys(first for _, first in groups)),
        known,
    )


def _rates(stacks: dict[tuple[str, ...], list[Run]], workload: str, step: str) -> dict[str, RelativeRate]:
    def side(rest: tuple[str, ...]) -> Side:
        return Side("+".join(rest) or "base", tuple(r for r in stacks[rest] if r.workload == workload))

    others = [side(rest) for rest in stacks if rest]
    rates: dict[str, RelativeRate] = {}
    for comparison in compare_all(side(()), [o for o in others if o.runs], steps=[step]):
        for s in comparison.steps:
            v = s.verdict
            if v.n and not v.aside:
                rates[comparison.other] = RelativeRate(
                    v.ratio, v.low if v.is_bounded else None, v.high if v.is_bounded else None
                )
    return rates


def _judged(runs: Sequence[Run], step: str | None) -> str | None:
    names = [s.name for run in runs for s in run.steps if s.measured]
    if step is not None:
        return step if step in names else None
    return JUDGED if JUDGED in names else next(iter(names), None)


def _stack(run: Run) -> tuple[str, ...]:
    return tuple(config_file.name for config_file in run.record.config.fragments)


def _server(run: Run) -> str:
    return run.record.server.label
