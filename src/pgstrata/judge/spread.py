"""How much runs of the same thing differ on one machine: from repeats that are there already.

What counts: finished runs of the same step and work on the same host, measured alone (a run that took turns
was measured over a longer time), of a variant that was measured more than once in one campaign. The variant
is one of the two sides', by server and config; or it belongs to `pgstrata noise`, whose runs are there to say
how the machine behaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from pgstrata.judge.differences import other_work
from pgstrata.stats.runs import RunSpread, run_spread
from pgstrata.store import Results, Run

NOISE = "noise "
"""Begins the names of the campaigns of `pgstrata noise`."""

MOST_READ = 200
"""Runs that are opened to know the spread, the last ones: more would hardly change it."""


def repeats_of(results: Results, workloads: Collection[str]) -> list[Run]:
    """Returns the runs of these workloads that may tell the spread: those of variants measured more than
    once."""
    if not results.root.is_dir():
        return []
    alone = [
        entry
        for entry in results.entries()
        if entry.status == "done" and entry.comparison is None and entry.workload in workloads
    ]
    times = Counter((e.campaign, e.variant, e.workload, e.hostname) for e in alone)
    several = [e for e in alone if times[e.campaign, e.variant, e.workload, e.hostname] > 1]
    return results.read(sorted(several, key=lambda e: e.started)[-MOST_READ:])


def spread_of(step: str, sides: Sequence[Run], known: Iterable[Run]) -> RunSpread | None:
    """Returns the spread of the rate of a step from run to run.

    sides: the runs that are judged; known: all others that may say something. None where the sides are of
    different hosts, or nothing was measured twice.
    """
    if len({run.record.host.hostname for run in sides}) != 1:
        return None
    groups: dict[tuple[str, str], dict[str, float]] = {}
    for run in (*sides, *known):
        rate = next((s.rate for s in run.steps if s.name == step and s.measured), None)
        if rate and run.done and run.record.comparison is None and _alike(run, sides):
            groups.setdefault((run.campaign, run.variant), {})[run.run_id] = rate
    return run_spread([list(rates.values()) for rates in groups.values()])


def _alike(run: Run, sides: Sequence[Run]) -> bool:
    first = sides[0]
    if run.workload != first.workload or run.record.host.hostname != first.record.host.hostname:
        return False
    if not run.campaign.startswith(NOISE) and _thing(run) not in map(_thing, sides):
        return False
    return not other_work(run, first)


def _thing(run: Run) -> tuple[object, ...]:
    """Returns everything that makes two variants the same, whatever their names."""
    server, config = run.record.server, run.record.config
    return (
        server.version,
        server.build,
        config.name,
        tuple(sorted(config.settings.items())),
        tuple(sorted(run.record.env.items())),
        tuple(run.record.initdb),
    )
