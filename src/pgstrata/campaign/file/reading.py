"""From a campaign file, and what the command line adds to it, to a checked Campaign.

Everything that can be known to be wrong without starting a server is said here, as a UsageError
that names the file, the key, the reason and what was probably meant.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.file.toml import parse, parse_value
from pgstrata.campaign.named_servers import named_server
from pgstrata.campaign.problems import explain
from pgstrata.campaign.study import OF_FILE, Study, Variant, expand
from pgstrata.errors import UsageError
from pgstrata.files.shipped import shipped
from pgstrata.files.user_files import in_command, is_folder, is_there, read_text, shown
from pgstrata.server.cluster.initdb import check_initdb
from pgstrata.server.cluster.storage import check_storage
from pgstrata.server.config.classes import check_keep
from pgstrata.server.config.resolve import find_config_file, is_setting, stack_of
from pgstrata.server.connect.pooler import check_through
from pgstrata.server.find.acquire import check_spec
from pgstrata.server.find.sources import is_source
from pgstrata.suggest import meant
from pgstrata.workload import catalog
from pgstrata.workload.core.options import WorkloadKind
from pgstrata.workload.plugin import Plugin, blamed

DEFAULT_WORKLOAD = "insert"
COMPARED_WORKLOAD = "sysbench"
SMALLEST_SCALE = "quick"

QUICK_SECONDS = 30.0
"""Most measured seconds of a step, all variants together, where the command line names only servers."""

_HOW = ("order", "until", "repeats")
"""Keys that say how variants are measured; where one is given, nothing is assumed about the others."""


@dataclass(frozen=True)
class Overrides:
    """What the command line says beside, or instead of, a file.

    servers, configs and workloads replace those of the file. scale: of all workloads; small: without a file
    and a scale, that of the workloads which have it. compares: without a file, several variants take turns
    until each step is known, on the smallest scale. sets: `key=value` or `workload.key=value`. settings:
    `name=value` of PostgreSQL, added to the config of every variant. fraction: of the sizes and clients that
    workloads of the file have. fields: other keys of the campaign (None: not given).
    """

    servers: Sequence[str] = ()
    configs: Sequence[str] = ()
    workloads: Sequence[str] = ()
    scale: str | None = None
    small: str | None = None
    compares: bool = False
    sets: Sequence[str] = ()
    settings: Sequence[str] = ()
    fraction: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


def read_campaign(file: Path, overrides: Overrides | None = None) -> Campaign:
    """Reads and checks a campaign file; `campaigns/NAME.toml` is the one that comes with pgstrata where the
    folder has none. Raises UsageError."""
    if file.parts[:1] == ("campaigns",) and not is_there(file):
        file = shipped(str(file)) or file
    if is_folder(file):
        raise UsageError(
            f"{shown(file)} is a folder, neither a campaign file nor an installation of PostgreSQL",
            "name a .toml file, the folder that contains bin/postgres, or src:DIR for a source tree",
        )
    if hint := _of_another_kind(file):
        raise UsageError(f"{shown(file)} is not a campaign file", hint)
    text = read_text(
        file,
        "campaign file",
        missing="pgstrata init writes one to start from; a server is written pg:17 or path:DIR",
    )
    document = parse(text, str(file))
    if "series" in document and "repository" in document:
        raise UsageError(
            f"{shown(file)} is the file of a watch, not a campaign", f"pgstrata watch {in_command(file)}"
        )
    return _read(document, str(file), file, overrides or Overrides())


_OTHER_KINDS = {
    ".conf": "a config file stands behind --config: pgstrata run pg:17 --config {}",
    ".sql": "a query: pgstrata compare-queries --server pg:16,pg:17 {0}; a script of pgbench: pgstrata run "
    "pg:16 pg:17 --script {0}",
    ".pgstrata": "a bundle is judged anew by pgstrata verify {}",
    ".patch": "a patch: pgstrata patch --repo DIR --base REF {}",
    ".dump": "a dump: pgstrata compare-queries --server pg:16,pg:17 --setup {} QUERY.sql",
    ".csv": "a log: pgstrata capture {} -o FILE",
    ".log": "a log: pgstrata capture {} -o FILE",
}
"""What is done with files that end so, and are no campaigns."""


def _of_another_kind(file: Path) -> str:
    """Returns what is done with a file that is there and is no campaign by its ending; else an empty text."""
    hint = _OTHER_KINDS.get(file.suffix)
    return hint.format(in_command(file)) if hint and os.path.isfile(file) else ""  # noqa: PTH113 - as above


def adhoc_campaign(overrides: Overrides) -> Campaign:
    """Returns a campaign made of the command line alone, named after its workloads. Raises UsageError.

    Where steps end with their verdicts, how long they take is known by then: the smallest scale is enough,
    unless sizes are given.
    """
    if not overrides.servers:
        raise UsageError(
            "nothing to compare: no campaign file and no server",
            "name servers, as in pgstrata run pg:16 pg:17, or a campaign file",
        )
    document: dict[str, Any] = {}
    overrides = _as_comparison(overrides)
    small = overrides.small
    if overrides.fields.get("until") == "verdict" and not overrides.sets:
        small = small or SMALLEST_SCALE
    if small and not overrides.scale:
        names = overrides.workloads or [DEFAULT_WORKLOAD]
        document["workloads"] = [
            {"name": name, "scale": small}
            for name in names
            if catalog.is_known(name) and small in catalog.find(name).scales
        ]
    return _read(document, "command line", None, overrides)


def _as_comparison(overrides: Overrides) -> Overrides:
    """Returns what a comparison of several variants means where only the variants are named.

    Running servers (`dsn:`) cannot take turns, and a workload without a small scale, say the replay of a log,
    may take long; both are measured one after the other.
    """
    specs = [named_server(text).spec for text in overrides.servers]
    builds = max(1, len(overrides.fields.get("build") or ()))
    variants = sum(builds if is_source(spec) else 1 for spec in specs) * max(1, len(overrides.configs))
    says_how = overrides.scale or any(overrides.fields.get(key) is not None for key in _HOW)
    if not overrides.compares or variants < 2 or says_how or any(s.startswith("dsn:") for s in specs):
        return overrides
    workloads = overrides.workloads or [COMPARED_WORKLOAD]
    if not all(_has_small_scale(name) for name in workloads):
        return overrides
    fields = {
        **overrides.fields,
        "until": "verdict",
        "order": "interleaved",
        "max_seconds": overrides.fields.get("max_seconds") or QUICK_SECONDS,
    }
    return replace(overrides, workloads=workloads, small=SMALLEST_SCALE, fields=fields)


def _has_small_scale(name: str) -> bool:
    return catalog.is_known(name) and SMALLEST_SCALE in catalog.find(name).scales


def check_study(
    study: Study, *, sets: Sequence[str] = (), file: Path | None = None, source: str = "command line"
) -> Campaign:
    """Checks a study that is no file, as files are checked.

    sets: options of its workloads as `--set` takes them. file: beside which its relative paths start; it need
    not be there. source: what messages call the study. Raises UsageError.
    """
    return _check(study, source, file, Overrides(sets=sets))


def _read(document: dict[str, Any], source: str, file: Path | None, overrides: Overrides) -> Campaign:
    """Returns the checked study that a file or the command line describes."""
    document = _with(document, overrides, file.parent if file else Path.cwd())
    try:
        study = Study.model_validate(document, context=OF_FILE)
    except ValidationError as error:
        raise explain(error, Study, source) from error
    return _check(study, source, file, overrides)


def _check(spec: Study, source: str, file: Path | None, overrides: Overrides) -> Campaign:
    if spec.until == "verdict" and spec.order != "interleaved":
        raise UsageError(
            f'{source}: until = "verdict" is for variants that take turns, not for order = "{spec.order}"',
            'leave `order` out, or say order = "interleaved"',
        )
    try:
        variants = expand(spec)
    except ValueError as error:
        raise UsageError(f"{source}: {error}", "divide it into several") from error
    variants = [_with_settings(variant, overrides.settings) for variant in variants]
    if not variants:
        raise UsageError(
            f"{source}: nothing to compare", 'name at least one server: servers = ["pg:12", "pg:17"]'
        )
    if not spec.workloads:
        raise UsageError(f"{source}: nothing to run", 'add [[workloads]] with name = "insert"')
    try:
        check_keep(spec.keep_settings)
    except UsageError as error:
        raise UsageError(f"{source}: {error.message}", error.hint) from error
    for index, variant in enumerate(variants):
        with _where(variants, index, spec, source):
            _check_variant(variant, file)
    workloads = _choose(spec, source, file, overrides)
    name = spec.name or (file.stem if file else _name_of(workloads, overrides))
    campaign = Campaign(name=name, file=file, spec=spec, variants=variants, workloads=workloads)
    for index, variant in enumerate(variants):
        with _where(variants, index, spec, source):
            campaign.build_of(variant)
            campaign.extensions_of(variant)
    return campaign


def _with(document: dict[str, Any], overrides: Overrides, beside: Path) -> dict[str, Any]:
    document = dict(document)
    if overrides.servers:
        document["servers"] = list(overrides.servers)
        document.pop("variants", None)
        if overrides.configs or "configs" not in document:
            # --config a --config b+c: two stacks, the second of two config files
            document["configs"] = [stack_of(stack, beside) for stack in overrides.configs]
    elif overrides.configs:
        if document.get("variants"):
            raise UsageError("--config goes with --server where the campaign lists variants one by one")
        document["configs"] = [stack_of(stack, beside) for stack in overrides.configs]
    if overrides.workloads:
        given = [w for w in document.get("workloads", []) if isinstance(w, dict)]
        document["workloads"] = [
            next((w for w in given if name in (w.get("label"), w.get("name"))), {"name": name})
            for name in overrides.workloads
        ]
    elif "workloads" not in document and overrides.servers:
        document["workloads"] = [{"name": DEFAULT_WORKLOAD}]
    fields = {key: value for key, value in overrides.fields.items() if value is not None}
    if fields.get("profile") is True and document.get("profile"):
        del fields["profile"]  # the file says more about it: how long, which event
    document.update(fields)
    return document


def _with_settings(variant: Variant, settings: Sequence[str]) -> Variant:
    """Returns the variant with settings of the command line after its config. Raises UsageError."""
    for text in settings:
        if not is_setting(text):
            raise UsageError(
                f"--set-guc {shown(text)}: not of the form NAME=VALUE", "write --set-guc work_mem=64MB"
            )
        if variant.server.startswith("dsn:"):
            raise UsageError(
                f"--set-guc {shown(text)}: a dsn: server runs already and keeps the settings it has",
                "leave it out, or set it there with ALTER SYSTEM",
            )
    return variant.model_copy(update={"config": [*variant.config, *settings]}) if settings else variant


def _check_variant(variant: Variant, file: Path | None) -> None:
    beside = file.parent if file else Path.cwd()
    check_spec(variant.server)
    _check_foreign(variant)
    check_initdb(variant.initdb)
    check_storage(variant.data_dir, variant.wal_dir, variant.io_delay)
    _check_replicas(variant)
    if variant.through is not None:
        managed = not variant.server.startswith("dsn:")
        check_through(variant.through, variant.pooler_settings, managed=managed)
    elif variant.pooler:
        raise UsageError("`pooler` has no `through`", 'add through = "pgbouncer"')
    for config_file in variant.config:
        find_config_file(config_file, beside)


def _check_replicas(variant: Variant) -> None:
    if not variant.replicas:
        for key, given in (("replication", variant.replication), ("reads", variant.reads)):
            if given not in ("async", "primary"):
                raise UsageError(f'`{key} = "{given}"` has no `replicas`', "add replicas = 1")
    if variant.through is not None and variant.reads == "replica":
        raise UsageError(
            "`through` stands before the primary, and `reads` goes to the replica", "leave one of them out"
        )


@contextmanager
def _where(variants: Sequence[Variant], index: int, spec: Study, source: str) -> Iterator[None]:
    """Says of which variant a UsageError is."""
    try:
        yield
    except UsageError as error:
        product = len(variants) - len(spec.variants)
        where = f"variants[{index - product + 1}]" if index >= product else "servers and configs"
        raise UsageError(f"{source}: {where}: {error.message}", error.hint) from error


def _check_foreign(variant: Variant) -> None:
    """Raises UsageError if a variant asks a server that already runs to change: it keeps its own settings and
    environment."""
    if not variant.server.startswith("dsn:"):
        return
    given = [
        ("config", variant.config not in ([], ["default"])),
        ("env", variant.env),
        ("initdb", variant.initdb),
        ("memory", variant.memory),
        ("data_dir", variant.data_dir),
        ("wal_dir", variant.wal_dir),
        ("io_delay", variant.io_delay),
        ("replicas", variant.replicas),
    ]
    for key, there in given:
        if there:
            raise UsageError(
                f"`{key}` cannot be set for a dsn: server, which runs already",
                "leave it out, and list the server under [[variants]] where others have configs",
            )


def _choose(spec: Study, source: str, file: Path | None, overrides: Overrides) -> list[ChosenWorkload]:
    sets = [_parse_set(text) for text in overrides.sets]
    # Files that workloads and their options name are looked for beside the campaign.
    beside = file.parent if file else Path.cwd()
    for index, wanted in enumerate(spec.workloads):
        if not catalog.is_known(wanted.name):
            raise UsageError(
                f"{source}: `workloads[{index + 1}].name`: there is no workload `{shown(wanted.name)}`",
                meant(wanted.name, catalog.names(), "workloads"),
            )
    workloads = [catalog.find(w.name, beside) for w in spec.workloads]
    labels = [
        w.label or _label(known_workload) for w, known_workload in zip(spec.workloads, workloads, strict=True)
    ]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(
                f"{source}: two workloads are called `{label}`", 'give one of them another name: label = "…"'
            )
    if overrides.fraction is not None and not any(SCALED.intersection(w.options) for w in spec.workloads):
        raise UsageError(f"{source}: no workload says a size that --fraction makes smaller", "leave it out")
    used: set[int] = set()
    chosen = []
    for index, wanted in enumerate(spec.workloads):
        where, workload = f"workloads[{index + 1}]", workloads[index]
        scale = overrides.scale or wanted.scale
        values: dict[str, Any] = {"seed": spec.seed} if "seed" in workload.Options.model_fields else {}
        if spec.allow_outside and "allow_outside" in workload.Options.model_fields:
            values["allow_outside"] = True
        if scale is not None:
            if scale not in workload.scales:
                raise UsageError(
                    f"{source}: workload `{wanted.name}` has no scale `{scale}`",
                    meant(scale, workload.scales, "scales"),
                )
            values.update(workload.scales[scale])
        user_options: dict[str, Any] = dict(wanted.options)
        if overrides.fraction is not None:
            values, user_options = (scaled_down(each, overrides.fraction) for each in (values, user_options))
        for number, (whose, key, value) in enumerate(sets):
            if whose in (None, labels[index]) and (key in workload.Options.model_fields or whose):
                user_options[key] = value
                used.add(number)
        if user_options.get("scripts"):
            values.pop("builtin", None)  # a scale's, which would be measured beside them
        values.update(user_options)
        try:
            with blamed(workload):
                options = workload.Options.model_validate(values, context={"folder": beside})
        except ValidationError as error:
            raise explain(error, workload.Options, source, f"{where}.options") from error
        chosen.append(ChosenWorkload(label=labels[index], workload=workload, options=options))
    for number, (whose, key, _) in enumerate(sets):
        if number not in used:
            _refuse_set(whose, key, labels, [c.workload for c in chosen])
    return chosen


SCALED = frozenset({"rows", "rows_i1", "rows_i2", "warehouses", "clients"})
"""Options that `--fraction` makes smaller."""


def scaled_down(values: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """Returns options with a fraction of each size and of the clients, one at least. Of lists, sizes become
    smaller; numbers of clients stay, because steps are called after them."""
    scaled_values = dict(values)
    for key in SCALED & scaled_values.keys():
        value = scaled_values[key]
        if isinstance(value, list) and key != "clients":
            scaled_values[key] = list(dict.fromkeys(_part(each, fraction) for each in value))
        elif not isinstance(value, list):
            scaled_values[key] = _part(value, fraction)
    return scaled_values


def _part(value: Any, fraction: float) -> Any:
    """Returns a whole number multiplied by the fraction, rounded up and at least 1; other values are returned
    as they are and refused later, with all other wrong values."""
    return max(1, math.ceil(value * fraction)) if type(value) is int else value


def _label(workload: WorkloadKind) -> str:
    return workload.label if isinstance(workload, Plugin) else workload.name


def _refuse_set(label: str | None, key: str, labels: list[str], workloads: list[Any]) -> None:
    if label is not None:
        raise UsageError(
            f"--set {label}.{key}: no workload here is called `{label}`", meant(label, labels, "workloads")
        )
    known = sorted({name for w in workloads for name in w.Options.model_fields})
    raise UsageError(f"--set {key}: no workload here has an option `{key}`", meant(key, known, "options"))


def _parse_set(text: str) -> tuple[str | None, str, Any]:
    """Parses `key=value` or `workload.key=value`; the value is TOML, a bare word is text."""
    match = re.fullmatch(r"\s*(?:([^=\s]+)\.)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", text, re.DOTALL)
    if not match:
        raise UsageError(
            f"--set {shown(text)}: not of the form key=value",
            "say --set rows=1000000, or --set insert.rows=1000000",
        )
    label, key, raw = match.groups()
    return label, key, parse_value(raw, f"--set {shown(text)}")


def _name_of(workloads: list[ChosenWorkload], overrides: Overrides) -> str:
    name = "+".join(w.label for w in workloads)
    scale = overrides.scale or overrides.small
    return f"{name}-{scale}" if scale else name
