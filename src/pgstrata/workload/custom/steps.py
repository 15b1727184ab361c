"""A workload of files: setup, steps of scripts, a folder of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST, Features
from pgstrata.workload.core.curve import curve_phases
from pgstrata.workload.core.language import Admin, FixedRate, Headline, Phase, Role, Settle, Step
from pgstrata.workload.core.options import RunCost, WorkloadOptions
from pgstrata.workload.core.queries import READ_ONLY
from pgstrata.workload.core.scripts import RETRIED, check_scripts, read_scripts
from pgstrata.workload.custom.options import CustomOptions, ScriptRole, ScriptStep
from pgstrata.workload.custom.queries import query_phases
from pgstrata.workload.custom.row_counts import row_count_check
from pgstrata.workload.custom.setup import Setup, setup

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

BYTES_PER_BYTE = 3.0
"""Of a data folder for each byte of rows: headers, indexes, dead rows, spare room; for estimates only."""


class Custom:
    """A workload of files: setup, scripts, queries."""

    name = "custom"
    summary = "Your own: a schema or dump, pgbench scripts in roles, a folder of queries; from files alone"
    Options: type[WorkloadOptions] = CustomOptions
    scales: Mapping[str, Mapping[str, Any]] = {}

    def phases(self, options: CustomOptions, server: Features) -> list[Phase]:
        o = options
        if not (o.setup or o.script_steps or o.queries):
            raise UsageError(
                "workload custom has nothing to do", "name `setup`, `scripts`, `steps` or `queries`"
            )
        return self._phases(o, server, setup(o, server))

    def _phases(self, o: CustomOptions, server: Features, setup_plan: Setup) -> list[Phase]:
        phases = [*setup_plan.phases]
        if o.row_counts:
            phases.append(row_count_check(o.row_counts, confined=setup_plan.confinement.has_role))
        if o.setup and o.settle != "none":
            phases += _settle(o)
        # Queries come first: they only read, and what scripts write would change what they find.
        phases += query_phases(o, server, setup_plan.tables)
        confined = setup_plan.confinement.has_role
        steps: list[Phase] = []
        for step in o.script_steps:
            at = partial(_measured, o, step, setup_plan.tables, confined)
            steps += curve_phases(step.title, o.clients_of(step), o.refine, at)
        if phases and isinstance(phases[-1], Settle):
            steps = list(dropwhile(lambda phase: not isinstance(phase, Step), steps))
        phases = [replace(phase, confined=confined) if isinstance(phase, Step) else phase for phase in phases]
        return [*phases, *steps]

    def extensions(self, options: CustomOptions) -> Sequence[str]:
        """Returns the extensions that the options name, and those that the files of `setup` create."""
        return setup(options, NEWEST).extensions

    def only(self, steps: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Returns the options for these steps: they share their data; the length of those that name none can
        be chosen."""
        return {"seconds": seconds}

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.workload.custom.report import custom  # what draws is loaded where something is drawn

        return custom(results, workload)

    def estimate(self, options: CustomOptions) -> RunCost:
        """Returns the cost: seconds as the steps say; bytes from those of the rows, and the write-ahead log:
        1 GiB, or what the load writes if that is less."""
        o = options
        setup_plan = setup(o, NEWEST)
        steps = [p for p in self._phases(o, NEWEST, setup_plan) if isinstance(p, Step)]
        seconds = sum(s.expected_seconds for s in steps)
        written = 0.0 if o.reads_only else 300e3 * sum(s.seconds or 0.0 for s in steps)
        data = setup_plan.bytes * BYTES_PER_BYTE + written
        return RunCost(seconds, int(data + min(2**30, data) + 60e6))


def _settle(o: CustomOptions) -> list[Phase]:
    return [Admin("vacuum", ["VACUUM ANALYZE"]), Settle([], o.settle_seconds)]


def _measured(
    o: CustomOptions, step: ScriptStep, tables: Sequence[str], confined: bool, clients: int
) -> list[Phase]:
    """Returns what measures a step with a number of clients. Raises UsageError for scripts that cannot be
    read."""
    measured = replace(_step(o, step, tables, clients), confined=confined)
    check_scripts(measured)
    if o.settle == "vacuum":
        return [*_settle(o), measured]
    return [Admin("checkpoint", ["CHECKPOINT"]), measured] if o.settle == "checkpoint" else [measured]


def _step(o: CustomOptions, step: ScriptStep, tables: Sequence[str], clients: int) -> Step:
    reads_only = o.reads_only if step.reads_only is None else step.reads_only
    rate = step.rate if step.rate is not None else o.rate
    roles = step.roles or [
        ScriptRole.model_construct(
            name="query", scripts=step.scripts, clients=None, rate=rate, mode=None, reads_only=False
        )
    ]
    return Step(
        o.title(step, clients),
        [
            _role(o, step, role, role.clients or clients, reads_only=reads_only or role.reads_only)
            for role in roles
        ],
        Headline(step.headline or roles[0].name, "operations", "transactions/s"),
        seconds=step.seconds or o.seconds,
        warmup=o.warmup if step.warmup is None else step.warmup,
        tables=tables,
        group=step.title,
        reads_only=reads_only,
        overtime=o.overtime,
    )


def _role(o: CustomOptions, step: ScriptStep, role: ScriptRole, clients: int, *, reads_only: bool) -> Role:
    return Role(
        role.name,
        clients,
        read_scripts(role.scripts),
        mode=role.mode or step.mode or o.mode,
        prepare="lazy",
        allow_shell=o.allow_shell,
        rate=None if role.rate is None else FixedRate(role.rate / clients),
        retry_sqlstates=RETRIED if o.max_tries > 1 else (),
        max_tries=o.max_tries,
        variables={"scale": 1, "random_seed": o.seed, "default_seed": o.seed, **o.define},
        reads_only=reads_only,
        start=[READ_ONLY] if reads_only else [],
    )
