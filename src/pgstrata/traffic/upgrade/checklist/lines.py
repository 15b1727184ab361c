"""The lines of the checklist, each with its evidence and what to do, from what the servers have answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pgstrata import numbers
from pgstrata.report.sections.settings import PLACES
from pgstrata.server.config.settings import Setting, with_unit
from pgstrata.sql_tokens import tokens
from pgstrata.traffic.upgrade.checklist.changes import Change, Code
from pgstrata.traffic.upgrade.checklist.rehearsal import Answers, Rehearsal

State = Literal["fails", "before", "after", "look", "note", "unknown", "hand"]

STATES: Mapping[State, str] = {
    "fails": "fails",
    "before": "before the upgrade",
    "after": "after the upgrade",
    "look": "to look at",
    "unknown": "not known",
    "note": "to know",
    "hand": "not visible from here",
}
"""In the order in which a reader wants them, with what they are called."""

MOST_OBJECTS = 200

MOST_REFUSED = 0.05
"""Share of the definitions that both servers may refuse before the checklist says too little."""

REFUSED_STATEMENTS = "refused-statements"

_OF_EFFECT: Mapping[str, State] = {
    "refused": "before",
    "fails": "before",
    "starts": "before",
    "rebuild": "after",
    "answers": "look",
    "access": "look",
}
_ANALYZED = frozenset(("select", "insert", "update", "delete", "merge", "with", "values", "table"))
"""How statements begin that the parser looks up names and types of."""


class Line(msgspec.Struct, frozen=True):
    """A line of the checklist.

    objects: where it is met, the first of `count`; act: SQL, a command, or what to do; source: where it is
    documented, empty where a server said it.
    """

    id: str
    state: State
    title: str
    act: str
    objects: list[str] = []
    count: int = 0
    source: str = ""

    @property
    def must(self) -> bool:
        """Whether something has to be done for it."""
        return self.state in ("before", "after")


@dataclass(frozen=True)
class Material:
    """What the lines of one new version are made of.

    definitions: statements of the dumps, as they stand in the files; statements: of the log, by number;
    names: how these are called; settings: of the user's config files, name and value; left_out: what was not
    defined because it reaches outside; database_bytes, old_bytes: of the loaded database on the new and the
    old version, and analyze_seconds: of ANALYZE on the new one, where they were measured.
    """

    rehearsal: Rehearsal
    label: str
    changes: Sequence[Change]
    definitions: Sequence[str]
    statements: Mapping[int, str]
    names: Mapping[int, str]
    settings: Sequence[tuple[str, str]]
    left_out: Sequence[str] = ()
    database_bytes: int | None = None
    old_bytes: int | None = None
    analyze_seconds: float | None = None

    @property
    def old(self) -> Answers:
        return self.rehearsal.old

    @property
    def new(self) -> Answers:
        return self.rehearsal.new[self.label]


def lines(material: Material) -> list[Line]:
    """Returns the checklist of one new version, in the order of `STATES`."""
    found = [
        *_refused(material),
        *_pg_upgrade(material),
        *_of_changes(material),
        *_removed_settings(material),
        *_reserved(material),
        *_extensions(material),
        *_collations(material),
        *_replication(material),
        *_rights(material),
        *_work(material),
        *_unknown(material),
    ]
    order = list(STATES)
    return sorted(found, key=lambda line: order.index(line.state))


def _line(id: str, state: State, title: str, act: str, objects: Sequence[str] = (), source: str = "") -> Line:
    return Line(id, state, title, act, list(objects[:MOST_OBJECTS]), len(objects), source)


# --- what a server said -----------------------------------------------------------------------


def _refused(m: Material) -> Iterator[Line]:
    old, new = m.old, m.new
    definitions = [
        f"{m.rehearsal.texts[number]}: {error}"
        for number, error in new.definitions.items()
        if number not in old.definitions
    ]
    if definitions:
        yield _line(
            "refused-definitions",
            "fails",
            f"{new.version} refuses definitions of the dump that {old.version} takes",
            "Change them on the old version; the first message is the cause, later ones may follow from it",
            definitions,
        )
    functions = [
        f"{name}: {error}" for name, error in new.functions.items() if error and old.functions.get(name) == ""
    ]
    if functions:
        yield _line(
            "refused-functions",
            "fails",
            f"{new.version} refuses bodies of functions that {old.version} takes",
            "CREATE OR REPLACE FUNCTION with what it takes",
            functions,
        )
    statements = [
        f"{m.names[number]}: {error}"
        for number, error in new.statements.items()
        if error and (old.statements.get(number) == "" or number in set(new.syntax) - set(old.syntax))
    ]
    if statements:
        yield _line(
            REFUSED_STATEMENTS,
            "fails",
            f"{new.version} refuses statements of the log that {old.version} takes",
            "Change the application first; most can be written so that both versions take them",
            statements,
        )


def _unknown(m: Material) -> Iterator[Line]:
    both = [
        f"{m.rehearsal.texts[number]}: {error}"
        for number, error in m.new.definitions.items()
        if number in m.old.definitions
    ]
    if both:
        yield _line(
            "refused-by-both",
            "unknown" if len(both) > MOST_REFUSED * len(m.rehearsal.texts) else "look",
            "Definitions that both servers refuse here: what needs them was not checked",
            "Mostly a role or an extension that is missing here; load the dump of roles, too (pg_dumpall -g)",
            both,
        )
    ids = {change.id: change for change in m.changes}
    unanswered = [f"{ids[name].title}: {why}" for name, why in m.old.unanswered.items() if name in ids]
    if unanswered:
        yield _line(
            "unanswered",
            "unknown",
            f"{m.old.version} did not answer whether these are met",
            "Look yourself",
            unanswered,
        )


def _pg_upgrade(m: Material) -> Iterator[Line]:
    checked = m.rehearsal.checked.get(m.label)
    if checked is None:
        yield _line(
            "pg-upgrade-check",
            "note",
            "pg_upgrade --check was not run: its programs are not in both installations. The catalogs were "
            "asked for the same conditions",
            "pg_upgrade --check -b OLD/bin -B NEW/bin -d OLD/data -D NEW/data on the day before",
        )
    elif checked.passed:
        yield _line("pg-upgrade-check", "note", "pg_upgrade --check found nothing", checked.command)
    else:
        yield _line(
            "pg-upgrade-check",
            "before",
            "pg_upgrade --check refuses this schema",
            checked.command,
            [
                line
                for line in checked.output.splitlines()
                if line.strip() and not line.rstrip().endswith("ok")
            ],
        )


# --- the table of changes ---------------------------------------------------------------------


def _of_changes(m: Material) -> Iterator[Line]:
    definitions = [(text, Code(text)) for text in m.definitions]
    statements = [(number, Code(text)) for number, text in m.statements.items()]
    for change in m.changes:
        if change.id == "checksums":
            yield from _checksums(m, change)
        elif change.effect == "default":
            yield from _default(m, change)
        elif change.by_hand:
            yield _line(change.id, "hand", change.title, change.act, (), change.source)
        else:
            objects = [*m.rehearsal.met.get(change.id, ())]
            if change.both and not any(change.meets(code) for _, code in definitions):
                continue
            if not change.both:
                objects += [_headed("in", text) for text, code in definitions if change.meets(code)]
                objects += [
                    _headed("statement", m.names[number])
                    for number, code in statements
                    if change.meets(code) and not (_fails_for_sure(change) and _is_taken(m, number))
                ]
            objects += list(_set_to(m, change))
            if objects:
                yield _met(change, objects)


def _met(change: Change, objects: Sequence[str]) -> Line:
    state = _OF_EFFECT[change.effect]
    if change.minor:
        state = "note"
    elif change.perhaps:
        state = "look"
    act = change.act
    if "{object}" in act:
        names = [name for name in objects if not name.startswith(("in ", "statement ", "config "))]
        act = act.replace("{object}", names[0] if len(names) == 1 else "…")
    return _line(change.id, state, change.title, act, objects, change.source)


def _fails_for_sure(change: Change) -> bool:
    return change.effect == "fails" and not change.perhaps


def _is_taken(m: Material, number: int) -> bool:
    """Whether the new server has looked up all of a statement and found nothing wrong."""
    words = [token.text.lower() for token in tokens(m.statements[number]) if token.kind == "word"]
    return words[:1] and words[0] in _ANALYZED and m.new.statements.get(number) == ""  # type: ignore[return-value]


def _headed(head: str, text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return f"{head} {line if len(line) <= most else line[: most - 1] + '…'}"


def _set_to(m: Material, change: Change) -> Iterator[str]:
    """The settings of a change in the config files and in ALTER ROLE or DATABASE."""
    for name, value in (*m.settings, *_altered(m.definitions)):
        if name in change.settings and (not change.values or re.fullmatch(change.values, value)):
            yield f"config {name} = {value}"


_ALTER_SET = re.compile(
    r"ALTER\s+(?:ROLE|USER|DATABASE)\s.*?\bSET\s+([\w.]+)\s*(?:=|\bTO\b)\s*(.*)\Z", re.IGNORECASE | re.DOTALL
)


def _altered(definitions: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in definitions:
        if found := _ALTER_SET.match(text):
            yield found[1].lower(), found[2].strip().strip("'")


def _checksums(m: Material, change: Change) -> Iterator[Line]:
    old, new = (_one(answers, "checksums") for answers in (m.old, m.new))
    if old == "off" and new == "on":
        said = f"initdb of {m.old.version}: off, of {m.new.version}: on"
        yield _line(change.id, "before", change.title, change.act, [said], change.source)


def _default(m: Material, change: Change) -> Iterator[Line]:
    old, new = _defaults(m.old), _defaults(m.new)
    own = {name for name, _ in (*m.settings, *_altered(m.definitions))}
    differing = [
        f"{name}: {old[name]} → {new[name]}"
        for name in change.settings
        if name in old and name in new and old[name] != new[name] and name not in own
    ]
    only_new = [f"{name}: {new[name]}" for name in change.settings if name in new and name not in old]
    if differing or only_new:
        yield _line(change.id, "note", change.title, change.act, [*differing, *only_new], change.source)


def _defaults(answers: Answers) -> dict[str, str]:
    found = {}
    for name, value, unit in answers.catalogs.get("defaults", ()):
        text = value or ""
        with_number = re.fullmatch(r"-?[0-9.]+", text)
        setting = Setting(str(name), 0, None, "real", unit or "", None, None, ())
        found[str(name)] = with_unit(setting, float(text)) if with_number else text
    return found


def _one(answers: Answers, question: str) -> str:
    rows = answers.catalogs.get(question) or [[""]]
    return rows[0][0] or ""


def _removed_settings(m: Material) -> Iterator[Line]:
    """Names in the user's files that the old server has and the new one lacks, the table's apart."""
    old, new = _defaults(m.old), _defaults(m.new)
    told = {
        name
        for change in m.changes
        if change.effect == "starts" and not change.values
        for name in change.settings
    }
    gone = [
        f"config {name} = {value}"
        for name, value in (*m.settings, *_altered(m.definitions))
        if name in old and name not in new and name not in told and not PLACES.match(name)
    ]
    if gone:
        yield _line(
            "settings-gone",
            "before",
            f"{m.new.version} does not know settings that are set: it does not start with them",
            "Leave them out of the file, or ALTER ROLE/DATABASE … RESET",
            gone,
        )


def _reserved(m: Material) -> Iterator[Line]:
    old, new = ({str(row[0]) for row in one.catalogs.get("reserved", ())} for one in (m.old, m.new))
    words = new - old
    names = [f"{row[0]} ({row[1]})" for row in m.old.catalogs.get("names", ()) if row[0] in words]
    if names:
        yield _line(
            "reserved-words",
            "look",
            f"Names that are reserved words of {m.new.version}: statements have to quote them",
            'Write "name" in double quotes, or rename it',
            names,
        )


# --- extensions, collations, replication, rights ----------------------------------------------


def _extensions(m: Material) -> Iterator[Line]:
    installed = {str(row[0]): str(row[1]) for row in m.old.catalogs.get("extensions", ())}
    there = {str(row[0]): str(row[1]) for row in m.new.catalogs.get("available", ())}
    missing = [f"{name} {release}" for name, release in installed.items() if name not in there]
    if missing:
        yield _line(
            "extensions-missing",
            "fails",
            f"{m.new.version} lacks extensions that the database has",
            "Install them for the new release first",
            missing,
        )
    newer = {name: release for name, release in installed.items() if there.get(name, release) != release}
    if newer:
        yield _line(
            "extensions-update",
            "after",
            "Extensions that pg_upgrade leaves at their old version (a restored dump has the new one)",
            " ".join(f'ALTER EXTENSION "{name}" UPDATE;' for name in newer),
            [f"{name} {release} → {there[name]}" for name, release in newer.items()],
            "pg_upgrade: Usage, post-upgrade processing",
        )
    same = [f"{name} {release}" for name, release in installed.items() if there.get(name) == release]
    if same:
        yield _line(
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
        yield _line(
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
        yield _line(
            "text-partitions",
            "look",
            "Tables partitioned by ranges of text: with another order rows are in the wrong partition",
            "With another C library or ICU: dump and load them",
            partitions,
        )
    old, new = ({str(r[0]): r[3] for r in one.catalogs.get("collations", ())} for one in (m.old, m.new))
    differing = [
        f"{name}: {had} → {new[name]}"
        for name, had in old.items()
        if had and new.get(name) and new[name] != had
    ]
    if differing:
        yield _line(
            "collation-versions",
            "after",
            "Collations whose version differs between the two installations that were tried",
            "REINDEX what uses them; ALTER COLLATION … REFRESH VERSION;",
            differing,
        )


def _replication(m: Material) -> Iterator[Line]:
    made = [
        text for text in m.definitions if re.match(r"\s*CREATE\s+(?:PUBLICATION|SUBSCRIPTION)\s", text, re.I)
    ]
    without_secrets = [re.split(r"\bCONNECTION\b", " ".join(text.split()))[0].strip() for text in made]
    if made:
        yield _line(
            "logical-replication",
            "before",
            "Publications and subscriptions: none of them is in the test cluster, and slots are in no dump",
            "SELECT slot_name, plugin, active FROM pg_replication_slots; — pg_upgrade keeps slots "
            "and subscriptions from 17 on; before, ALTER SUBSCRIPTION … DISABLE, and make slots anew",
            without_secrets,
            "pg_upgrade: Usage, prepare for publisher upgrades",
        )
    else:
        yield _line(
            "slots",
            "hand",
            "Replication slots and standbys are in no dump",
            "SELECT slot_name, active FROM pg_replication_slots; SELECT * FROM pg_stat_replication; "
            "— standbys are made anew or by rsync",
        )


def _rights(m: Material) -> Iterator[Line]:
    tables = [str(row[0]) for row in m.old.catalogs.get("row security", ())]
    if tables:
        yield _line(
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
        found[1]
        for text in m.definitions
        if (found := re.search(r"\bOWNER\s+TO\s+(\S+?);?\s*\Z", text, re.I)) is not None
    }
    if rights or owners:
        yield _line(
            "rights",
            "look",
            f"Owners and rights are not in the test cluster ({numbers.counted(len(owners), 'owner')}, "
            f"{len(rights)} GRANT or REVOKE): the replay does not try them",
            "pg_dumpall --globals-only for the roles; log in as each role of the application afterwards",
            sorted(owners),
        )
    if m.left_out:
        yield _line(
            "left-out",
            "look",
            "Left out of the test cluster because it reaches outside: not checked",
            "Try it by hand on the new version",
            m.left_out,
        )


def _work(m: Material) -> Iterator[Line]:
    keeps = any(change.id == "checksums" for change in m.changes)  # of 18, as is keeping statistics
    took = (
        f"took {numbers.duration(m.analyze_seconds)} here"
        if m.analyze_seconds is not None
        else "was not timed here"
    )
    yield _line(
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
        yield _line(
            "sizes",
            "note",
            f"The database takes {numbers.size(m.database_bytes)} on {m.new.version}{was}, freshly loaded",
            "pg_upgrade --copy needs as much free as the old cluster has; --link and --clone do not",
        )


__all__ = ["REFUSED_STATEMENTS", "STATES", "Line", "Material", "State", "lines"]
