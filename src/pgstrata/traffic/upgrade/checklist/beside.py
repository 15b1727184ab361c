"""Lines of the checklist about what stands beside statements: extensions, collations, replication, rights,
statistics, sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgstrata import numbers
from pgstrata.traffic.upgrade.checklist.model import Line, Material, line


def lines_beside(m: Material) -> Iterator[Line]:
    """Yields the lines in no order."""
    yield from _extensions(m)
    yield from _collations(m)
    yield from _replication(m)
    yield from _rights(m)
    yield from _work(m)


def _extensions(m: Material) -> Iterator[Line]:
    installed = {str(row[0]): str(row[1]) for row in m.old.catalogs.get("extensions", ())}
    there = {str(row[0]): str(row[1]) for row in m.new.catalogs.get("available", ())}
    missing = [f"{name} {release}" for name, release in installed.items() if name not in there]
    if missing:
        yield line(
            "extensions-missing",
            "fails",
            f"{m.new.version} lacks extensions that the database has",
            "Install them for the new release first",
            missing,
        )
    newer = {name: release for name, release in installed.items() if there.get(name, release) != release}
    if newer:
        yield line(
            "extensions-update",
            "after",
            "Extensions that pg_upgrade leaves at their old version (a restored dump has the new one)",
            " ".join(f'ALTER EXTENSION "{name}" UPDATE;' for name in newer),
            [f"{name} {release} → {there[name]}" for name, release in newer.items()],
            "pg_upgrade: Usage, post-upgrade processing",
        )
    same = [f"{name} {release}" for name, release in installed.items() if there.get(name) == release]
    if same:
        yield line(
            "extensions-same", "note", "Extensions with the same version on both sides", "Nothing", same
        )


REINDEX_QUESTION = (
    "On both machines: SELECT datname, datcollate, datcollversion, pg_database_collation_actual_version(oid) "
    "FROM pg_database; (before 15: ldd --version). Where they differ: REINDEX DATABASE CONCURRENTLY …; then "
    "ALTER DATABASE … REFRESH COLLATION VERSION;"
)


def _collations(m: Material) -> Iterator[Line]:
    indexes = [f"{row[0]} (collation {row[1]})" for row in m.old.catalogs.get("text indexes", ())]
    if indexes:
        yield line(
            "text-indexes",
            "look",
            "Indexes on text: wrong answers and double keys where the new machine has another C library "
            "(glibc 2.28 changed the order of texts) or ICU, unless the database is C or they are rebuilt",
            REINDEX_QUESTION,
            indexes,
            "Localization, Collation Support",
        )
    partitions = [str(row[0]) for row in m.old.catalogs.get("text partitions", ())]
    if partitions:
        yield line(
            "text-partitions",
            "look",
            "Tables partitioned by ranges of text: with another order rows are in the wrong partition",
            "With another C library or ICU: dump and load them",
            partitions,
        )
    old, new = (
        {str(r[0]): r[3] for r in answers.catalogs.get("collations", ())} for answers in (m.old, m.new)
    )
    differing = [
        f"{name}: {had} → {new[name]}"
        for name, had in old.items()
        if had and new.get(name) and new[name] != had
    ]
    if differing:
        yield line(
            "collation-versions",
            "after",
            "Collations whose version differs between the two installations that were tried",
            "REINDEX what uses them; ALTER COLLATION … REFRESH VERSION;",
            differing,
        )


def _replication(m: Material) -> Iterator[Line]:
    definitions = [
        text for text in m.definitions if re.match(r"\s*CREATE\s+(?:PUBLICATION|SUBSCRIPTION)\s", text, re.I)
    ]
    without_secrets = [re.split(r"\bCONNECTION\b", " ".join(text.split()))[0].strip() for text in definitions]
    if definitions:
        yield line(
            "logical-replication",
            "before",
            "Publications and subscriptions: none of them is in the test cluster, and slots are in no dump",
            "SELECT slot_name, plugin, active FROM pg_replication_slots; — pg_upgrade keeps slots "
            "and subscriptions of servers from 17 on; of older ones make slots anew",
            without_secrets,
            "pg_upgrade: Usage, prepare for publisher upgrades",
        )
    else:
        yield line(
            "slots",
            "hand",
            "Replication slots and standbys are in no dump",
            "SELECT slot_name, active FROM pg_replication_slots; SELECT * FROM pg_stat_replication; "
            "— standbys are made anew or by rsync",
        )


def _rights(m: Material) -> Iterator[Line]:
    tables = [str(row[0]) for row in m.old.catalogs.get("row security", ())]
    if tables:
        yield line(
            "row-security",
            "look",
            "Tables with row-level security: the replay passed by their policies, as pg_dump must",
            "pg_dump as a role with BYPASSRLS; try the policies with the roles of the application",
            tables,
        )
    rights = [
        text
        for text in m.definitions
        if re.match(r"\s*(?:GRANT|REVOKE|ALTER\s+DEFAULT\s+PRIVILEGES)\s", text, re.I)
    ]
    owners = {
        match[1]
        for text in m.definitions
        if (match := re.search(r"\bOWNER\s+TO\s+(\S+?);?\s*\Z", text, re.I)) is not None
    }
    if rights or owners:
        yield line(
            "rights",
            "look",
            f"Owners and rights are not in the test cluster ({numbers.counted(len(owners), 'owner')}, "
            f"{len(rights)} GRANT or REVOKE): the replay does not try them",
            "pg_dumpall --globals-only for the roles; log in as each role of the application afterwards",
            sorted(owners),
        )
    if m.left_out:
        yield line(
            "left-out",
            "look",
            "Left out of the test cluster because it reaches outside: not checked",
            "Try it by hand on the new version",
            m.left_out,
        )


def _work(m: Material) -> Iterator[Line]:
    keeps = bool(m.new.catalogs.get("restores statistics"))
    took = (
        f"took {numbers.duration(m.analyze_seconds)} here"
        if m.analyze_seconds is not None
        else "was not timed here"
    )
    yield line(
        "analyze",
        "after",
        f"ANALYZE of all tables {took}: without statistics plans are bad",
        "vacuumdb --all --analyze-in-stages --missing-stats-only; vacuumdb --all --analyze-only"
        if keeps
        else "vacuumdb --all --analyze-in-stages",
        ["pg_upgrade keeps statistics from 18 on, extended ones not before 19"] if keeps else [],
        "pg_upgrade: Usage, statistics",
    )
    if m.database_bytes is not None:
        was = f" ({numbers.size(m.old_bytes)} on {m.old.version})" if m.old_bytes is not None else ""
        yield line(
            "sizes",
            "note",
            f"The database takes {numbers.size(m.database_bytes)} on {m.new.version}{was}, freshly loaded",
            "pg_upgrade --copy needs as much free as the old cluster has; --link and --clone do not",
        )


__all__ = ["lines_beside"]
