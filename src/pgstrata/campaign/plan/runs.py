"""Which runs a campaign consists of, in which order, which of them are there already, and their cost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgstrata import numbers
from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.named_servers import folder_names
from pgstrata.campaign.plan.checks import (
    check_counted,
    check_cpus,
    check_delay,
    check_interleaved,
    check_memory,
    check_poolers,
    check_recovery,
    memory_limit,
)
from pgstrata.campaign.plan.existing import with_existing
from pgstrata.campaign.plan.loaded import with_loaded
from pgstrata.campaign.plan.model import PlannedRun, PlannedVariant
from pgstrata.campaign.plan.order import interleaved_cost, seconds_of, takes_turns
from pgstrata.campaign.plan.resume import phases_of, with_kept
from pgstrata.campaign.study import Variant, config_suffix
from pgstrata.errors import UsageError
from pgstrata.server.cluster.extensions import lacking
from pgstrata.server.cluster.storage import find_storage
from pgstrata.server.cluster.wanted_replicas import Replicas, check_replicas
from pgstrata.server.config.known import known_settings
from pgstrata.server.config.resolve import find_config_file, resolve
from pgstrata.server.connect.pooler import find_through
from pgstrata.server.connect.secrets import spec_without_secrets
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import DEFAULT, Build
from pgstrata.store import Results, comparisons
from pgstrata.store.names import RunKey
from pgstrata.suggest import meant
from pgstrata.workload.core.language import Step
from pgstrata.workload.core.options import NotInVersionError

AROUND_SECONDS = 8.0
"""What initdb, start, admin SQL, observing and storing take for one run, a typical disk assumed."""


@dataclass(frozen=True)
class Plan:
    """All runs of a campaign in the order in which they are made."""

    campaign: Campaign
    variants: Sequence[PlannedVariant]
    base: str
    runs: Sequence[PlannedRun]

    @property
    def missing(self) -> list[PlannedRun]:
        return [run for run in self.runs if run.existing is None]

    @property
    def seconds(self) -> float:
        """Estimated time of the runs that are missing."""
        return sum(run.seconds for run in self.missing)

    @property
    def bound(self) -> str:
        """What estimated times are: `about` so much, or the longest that may be."""
        return "at most" if self.campaign.spec.until == "verdict" else "about"

    @property
    def disk_bytes(self) -> int:
        """Estimated free space they need: that of the runs which are there at a time, unless data is kept."""
        together = [[run] for run in self.missing]
        if takes_turns(self.campaign.spec):
            together = groups(self.missing)
        sizes = [sum(run.disk_bytes for run in runs) for runs in together]
        return sum(sizes) if self.campaign.spec.keep_data else max(sizes, default=0)


def make_plan(
    campaign: Campaign,
    results: Results,
    find_server: Callable[[str, Build | None], Server],
    *,
    fresh: bool = False,
    elsewhere: bool = False,
) -> Plan:
    """Finds the servers (by `find_server`), resolves the configurations, puts the runs in order.

    fresh: what is there already is planned again. elsewhere: other machines measure, so that the CPUs of this
    one do not matter. Raises UsageError for labels or a base that are
    not unique and for runs of this name that were made with other options, ServerError for servers
    that cannot be had.
    """
    if not elsewhere:
        check_cpus(campaign)
    variants = _variants(campaign, find_server)
    check_poolers(campaign, variants)
    check_counted(campaign, variants)
    check_recovery(campaign, variants)
    unable = _unable(campaign, variants)  # "this version cannot" is said now, not after an hour
    runs = [
        _planned(campaign, variant, workload, repeat, unable.get((variant.label, workload.label), ""))
        for variant, workload, repeat in _order(campaign, variants)
    ]
    if not fresh:
        runs = [with_existing(run, results) for run in runs]
    if not takes_turns(campaign.spec):
        runs = [run for planned_run in runs for run in _resumed([planned_run], campaign, results, fresh)]
        runs = with_loaded([[_without_kept(run)] for run in runs], campaign.spec)
    else:
        for chosen in campaign.workloads:
            doing = [v for v in variants if (v.label, chosen.label) not in unable]
            check_interleaved(chosen, doing, campaign.spec)
        cannot = [run for run in runs if run.unable]
        able = [run for run in runs if not run.unable]
        able = [run for group in groups(able) for run in _together(group, results)]
        able = [run for group in groups(able) for run in _resumed(group, campaign, results, fresh)]
        able = with_loaded(groups(able), campaign.spec)
        costed = [
            interleaved_cost(run, campaign.spec, [other.variant for other in group])
            for group in groups(able)
            for run in group
        ]
        runs = [*cannot, *costed]
    return Plan(campaign, variants, _base(campaign, variants), runs)


def _resumed(
    group: Sequence[PlannedRun], campaign: Campaign, results: Results, fresh: bool
) -> list[PlannedRun]:
    runs = with_kept(group, campaign.spec, results)
    return [replace(run, kept=()) for run in runs] if fresh else runs


def _without_kept(run: PlannedRun) -> PlannedRun:
    """Returns the run with only the time of the steps that are still to do."""
    there = {step.name for step in run.kept}
    steps = [phase for phase in phases_of(run) if isinstance(phase, Step) and phase.name in there]
    return replace(run, seconds=max(0.0, run.seconds - sum(map(seconds_of, steps)))) if steps else run


def _unable(campaign: Campaign, variants: Sequence[PlannedVariant]) -> dict[tuple[str, str], str]:
    """Returns the reasons why servers cannot run workloads, by labels of variant and workload: the version,
    or an extension that is missing.

    Raises NotInVersionError where no variant can: then there is nothing to compare it with.
    """
    messages: dict[tuple[str, str], str] = {}
    for chosen in campaign.workloads:
        errors = []
        for variant in variants:
            try:
                chosen.phases(variant.server.features)
                _check_extensions(chosen, variant)
            except NotInVersionError as error:
                errors.append(error)
                messages[variant.label, chosen.label] = error.message
        if len(errors) == len(variants):
            raise errors[0]
    return messages


def _check_extensions(chosen: ChosenWorkload, variant: PlannedVariant) -> None:
    if names := lacking(variant.server, chosen.extensions):
        raise NotInVersionError(
            f"{chosen.label} needs the {numbers.plural('extension', len(names))} {', '.join(names)}, which "
            f"{variant.server.label} lacks",
            "leave out this server, or build one with it (docs/guides/builds.md: `contrib`, `extensions`)",
        )


def _variants(campaign: Campaign, find_server: Callable[[str, Build | None], Server]) -> list[PlannedVariant]:
    ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    servers: dict[tuple[str, Build | None], Server] = {}
    variants: list[PlannedVariant] = []
    for spec in campaign.variants:
        wanted = (spec.server, campaign.build_of(spec))
        if wanted not in servers:
            servers[wanted] = find_server(*wanted)
    server_labels = _server_labels(campaign, servers)
    for spec in campaign.variants:
        wanted = (spec.server, campaign.build_of(spec))
        server = servers[wanted]
        stack = spec.config if server.managed else []  # what runs already keeps its settings
        config_files = [find_config_file(name, campaign.folder) for name in stack]
        memory = memory_limit(spec.memory)
        # To a server with a limit, that is all the memory there is: shares of memory are shares of it.
        config = resolve(
            config_files,
            server.version_num,
            min(ram, memory or ram),
            server.build,
            programs=server.programs,
            keep=[name.lower() for name in campaign.spec.keep_settings],
        )
        through = find_through(spec.through, spec.pooler_settings)
        storage = find_storage(spec.data_dir, spec.wal_dir, spec.io_delay)
        extensions = campaign.extensions_of(spec)
        replicas = Replicas(spec.replication, spec.reads) if spec.replicas else None
        label = spec.label or (
            server_labels[wanted]
            + (config_suffix(stack) if server.managed else "")
            + (f".{through.label}" if through is not None else "")
            + (f".{storage.label}" if storage.label else "")
            + (f".{replicas.label}" if replicas is not None else "")
            + "".join(f".{name}" for name in extensions)
        )
        if same := next((v for v in variants if v.label == label), None):
            raise UsageError(
                f"two variants are called {label}: {_described(same.spec)} and {_described(spec)}",
                'give one of them a label: --server SPEC=LABEL, or label = "…" in a campaign file',
            )
        check_memory(memory, config, label)
        check_delay(storage, config, label)
        if replicas is not None:
            check_replicas(replicas, config, known_settings(server), label)
        if names := lacking(server, extensions):
            raise UsageError(
                f"{label} lacks the {numbers.plural('extension', len(names))} {', '.join(names)}",
                "install its package, or build a server with it: extensions = [FOLDER OF ITS SOURCE] "
                "(docs/guides/builds.md)",
            )
        number = len(variants)
        variants.append(
            PlannedVariant(
                spec, server, config, label, number, memory, through, storage, replicas, extensions
            )
        )
    return variants


def _server_labels(
    campaign: Campaign, servers: Mapping[tuple[str, Build | None], Server]
) -> dict[tuple[str, Build | None], str]:
    """Returns the labels of the servers that have none of their own: of installations and trees that would
    be called alike, the names of their folders."""
    used = [(spec.server, campaign.build_of(spec)) for spec in campaign.variants if spec.label is None]
    labels = {wanted: servers[wanted].label for wanted in used}
    for label in set(labels.values()):
        alike = [wanted for wanted in labels if labels[wanted] == label]
        for wanted, name in zip(alike, labels_of_alike([servers[w] for w in alike]), strict=True):
            how = wanted[1]
            is_plain = name == label or how is None or how.name == DEFAULT
            labels[wanted] = name if is_plain or how is None else f"{name}.{how.name}"
    return labels


def labels_of_alike(servers: Sequence[Server]) -> list[str]:
    """Returns labels that tell servers of one label apart by their folders, where they differ by folder."""
    folders = [Path(server.spec.partition(":")[2]) for server in servers]
    by_folder = all(server.spec.startswith(("path:", "src:")) for server in servers)
    if by_folder and len(servers) > 1 and len(set(folders)) == len(folders):
        return folder_names(folders)
    return [server.label for server in servers]


def _described(spec: Variant) -> str:
    built = f", built with {spec.build}" if spec.build else ""
    return f"{spec_without_secrets(spec.server)} with {' + '.join(spec.config) or 'no config'}{built}"


def _order(
    campaign: Campaign, variants: list[PlannedVariant]
) -> list[tuple[PlannedVariant, ChosenWorkload, int]]:
    repeats = range(1, campaign.spec.repeats + 1)
    if campaign.spec.order == "sequential":
        return [(v, w, r) for v in variants for w in campaign.workloads for r in repeats]
    if takes_turns(campaign.spec):
        return [(v, w, r) for r in repeats for w in campaign.workloads for v in variants]
    dice = random.Random(campaign.spec.seed)
    order = []
    for repeat in repeats:
        block = list(variants)
        dice.shuffle(block)
        order += [(v, w, repeat) for v in block for w in campaign.workloads]
    return order


def _planned(
    campaign: Campaign, variant: PlannedVariant, workload: ChosenWorkload, repeat: int, unable: str
) -> PlannedRun:
    key = RunKey(campaign.name, variant.label, workload.label, repeat)
    if unable:
        return PlannedRun(key, variant, workload, 0.0, 0, unable=unable)
    cost = workload.cost
    disk_bytes = int(cost.disk_bytes) * (1 if variant.replicas is None else 2)
    return PlannedRun(key, variant, workload, float(cost.seconds) + AROUND_SECONDS, disk_bytes)


def groups(runs: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
    """Returns the runs of an interleaved campaign grouped by joint measurement, in their order."""
    by_comparison: dict[tuple[int, str], list[PlannedRun]] = {}
    for run in runs:
        by_comparison.setdefault((run.key.repeat, run.key.workload), []).append(run)
    return list(by_comparison.values())


def _together(group: list[PlannedRun], results: Results) -> list[PlannedRun]:
    """Returns the runs of a comparison with their finished runs, which count only as a whole: a pair needs
    both sides at the same time."""
    if not any(run.existing for run in group):
        return group
    there = comparisons.complete(results, [run.key for run in group])
    if there is None:
        return [replace(run, existing=None, again=run.existing is not None) for run in group]
    return [replace(run, existing=there[run.key]) for run in group]


def _base(campaign: Campaign, variants: Sequence[PlannedVariant]) -> str:
    wanted = campaign.spec.base
    if wanted is None:
        return variants[0].label
    labels = [v.label for v in variants]
    if wanted in labels:
        return wanted
    begins = [label for label in labels if label.startswith(wanted)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise UsageError(
            f"`base`: {wanted} fits several variants: {', '.join(begins)}", "write the whole label"
        )
    raise UsageError(f"`base`: there is no variant {wanted}", meant(wanted, labels, "variants"))
