"""What the configs ask for, what versions made of it, and what the running servers said."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgstrata import numbers
from pgstrata.judge.builds import arguments
from pgstrata.page.blocks import Block, Cell, Column, Listing, Prose, Row, Section, Table, words
from pgstrata.page.results import RunSet, natural
from pgstrata.store.record import BuiltRecord, Change

# What SHOW ALL says about places and builds differs between any two runs and explains nothing.
PLACES = re.compile(
    r"^(data_directory|config_file|hba_file|ident_file|external_pid_file|port|listen_addresses|cluster_name"
    r"|unix_socket_.*|server_version.*|log_directory|log_filename|log_file_mode|krb_server_keyfile"
    r"|shared_memory_size.*|data_directory_mode|in_hot_standby)$"
)


def _differing(values: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns the names of settings whose value is not the same in every variant."""
    names = {name for settings in values.values() for name in settings}
    return sorted(
        (n for n in names if len({settings.get(n) for settings in values.values()}) > 1), key=natural
    )


def settings(results: RunSet) -> Section | None:
    asked: dict[str, dict[str, str]] = {}
    texts: dict[str, str] = {}
    for variant in results.variants:
        for run in results.runs_of(variant)[:1]:
            asked[variant] = run.record.config.settings
            for config_file in run.record.config.fragments:
                texts.setdefault(config_file.name, config_file.text)
    if not asked:
        return None
    differing = _differing(asked)
    blocks: list[Block] = []
    if differing:
        blocks.append(
            _matrix(
                "settings",
                "Settings that differ between the variants' configs",
                {v: asked.get(v, {}) for v in results.variants},
                differing,
                "Only settings that are not the same everywhere are listed, as they were written into "
                "postgresql.conf after sizes were resolved for this host. “not set” means that the server's "
                "default holds.",
            )
        )
    elif len(results.variants) > 1:
        blocks.append(Prose("Every variant was given the same settings."))
    everywhere = {n: v for n, v in next(iter(asked.values())).items() if n not in differing}
    if everywhere:
        text = "\n".join(f"{name} = {value}" for name, value in sorted(everywhere.items()))
        blocks.append(Listing(f"{numbers.counted(len(everywhere), 'setting')} common to all variants", text))
    blocks += [Listing(f"Config file {name}", text) for name, text in texts.items()]
    return Section("settings", "Settings", blocks)


def _matrix(
    name: str, title: str, values: Mapping[str, Mapping[str, str]], names: list[str], how: str
) -> Table:
    rows = [
        Row(
            [
                words(n),
                *(words(s[n]) if n in s else Cell(None, "not set", "missing") for s in values.values()),
            ]
        )
        for n in names
    ]
    columns = [Column("setting", "Setting", align="left"), *(Column(v, v, align="left") for v in values)]
    return Table(name, title, columns, rows, how)


def not_taken(results: RunSet) -> Section | None:
    """Returns the settings that a version lacks: dropped, or mapped to another name; None if there are
    none."""
    rows: list[Row] = []
    for variant in results.variants:
        for run in results.runs_of(variant)[:1] or [r for r in results.every if r.variant == variant][:1]:
            config = run.record.config
            rows += [
                Row(_change(variant, setting), variant=variant)
                for setting in (*config.dropped, *config.mapped)
            ]
    if not rows:
        return None
    table = Table(
        name="settings-dropped-or-mapped",
        title="Settings a version did not take as they were written",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("written", "Written", align="left"),
            Column("became", "Became", align="left"),
            Column("where", "Where", align="left"),
            Column("reason", "Reason", align="left"),
        ],
        rows=rows,
        how="A config names settings that not every version of PostgreSQL has, or that belong to the server "
        "it was written for: they reach outside the cluster, name a place, or need another server. Where a "
        "version has another setting for the same thing the value was mapped to it; otherwise the line was "
        "dropped, unless keep_settings names it. Keep "
        "this in mind where versions differ: they did not run with quite the same configuration.",
    )
    return Section("not-taken", "Settings dropped or mapped", [table])


def _change(variant: str, change: Change) -> list[Cell]:
    return [
        words(variant),
        words(f"{change.name} = {change.value}"),
        words("dropped" if change.to is None else f"{change.to} = {change.to_value}"),
        words(f"{change.fragment}, line {change.line}"),
        words(change.reason),
    ]


def show_all(results: RunSet) -> Section | None:
    """Returns the differences that nobody asked for: defaults that changed from version to version."""
    if len(results.variants) < 2:
        return None
    by_variant = {v: runs[0].settings() for v in results.variants if (runs := results.runs_of(v))}
    by_variant = {v: settings for v, settings in by_variant.items() if settings}
    if len(by_variant) < 2:
        return None
    names = [
        n
        for n in _differing(by_variant)
        if not PLACES.match(n) and sum(n in settings for settings in by_variant.values()) > 1
    ]
    if not names:
        return None
    how = (
        "What SHOW ALL said on the running servers. Besides what the configs ask for this shows defaults "
        "that changed between versions. Settings that only one variant knows are left out, as are names "
        "of files and places."
    )
    table = _matrix("show-all", "Settings that differ on the running servers", by_variant, names, how)
    title = f"Different on the running servers: {numbers.counted(len(names), 'setting')}"
    return Section("show-all", title, [table], folded=True)


def builds(results: RunSet) -> Section | None:
    flags: dict[str, set[str]] = {}
    for variant in results.variants:
        for run in results.runs_of(variant)[:1]:
            flags[variant] = set(arguments(run.record.server.build))
    if not any(flags.values()):
        return None
    common = set.intersection(*flags.values())
    blocks: list[Block] = [table] if (table := _from_source(results)) else []
    different = {v: sorted(own_flags - common) for v, own_flags in flags.items()}
    if any(different.values()):
        rows = [
            Row([words(v), words(" ".join(own_flags) or "nothing but the common ones")], variant=v)
            for v, own_flags in different.items()
        ]
        blocks.append(
            Table(
                "build-flags",
                "Build flags that not all variants share",
                [Column("variant", "Variant", align="left"), Column("flags", "Flags", align="left")],
                rows,
                "Flags of configure as pg_config tells them. A difference between servers that were built "
                "differently is not one between versions alone.",
            )
        )
    if common:
        blocks.append(Listing("Build flags of every variant", "\n".join(sorted(common))))
    return Section("builds", "Builds", blocks)


def _from_source(results: RunSet) -> Table | None:
    """Returns a table of the source and the build of each server that was built; None if none was."""
    rows = [
        Row([words(variant), *_built_cells(built)], variant=variant)
        for variant in results.variants
        for run in results.runs_of(variant)[:1]
        if (built := run.record.server.built) is not None
    ]
    if not rows:
        return None
    return Table(
        "built",
        "Servers that were built from source",
        [
            Column("variant", "Variant", align="left"),
            Column("source", "Source", align="left"),
            Column("compiler", "Compiler", align="left"),
            Column("flags", "Flags", align="left"),
            Column("system", "Built by", align="left"),
            Column("changes", "Changed in the copy", align="left"),
            Column("modules", "Modules", align="left"),
        ],
        rows,
        "Changed in the copy: patches of the campaign, then what today's compilers need of old trees, with "
        "the reason. The tree itself is never written to.",
    )


def _built_cells(built: BuiltRecord) -> list[Cell]:
    source, where = built.source, built.origin
    if commit := str(source.get("commit") or ""):
        where += f" ({commit[:12]}, {str(source.get('date') or '')[:10]}: {source.get('subject')})"
        where += ", with changed files" if source.get("changed") else ""
    elif source.get("sha256"):
        where += f" (SHA-256 {str(source['sha256'])[:12]}…)"
    changes = [patch.name for patch in built.patches]
    changes += [f"{mend.name}: {mend.reason}" for mend in built.mended]
    return [
        words(where),
        words(built.compiler.partition(",")[0]),
        words(built.cflags),
        words(built.system),
        words("; ".join(changes) or "nothing"),
        words(", ".join(built.create) or "none"),
    ]
