"""The lines of the checklist, each with its evidence and what to do, from what the servers have answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pgstrata.report.sections.settings import PLACES
from pgstrata.server.config.settings import Setting, with_unit
from pgstrata.sql_tokens import tokens
from pgstrata.traffic.upgrade.checklist.beside import lines_beside
from pgstrata.traffic.upgrade.checklist.changes import Change, Code, beyond_table
from pgstrata.traffic.upgrade.checklist.model import REFUSED_STATEMENTS, STATES, Line, Material, State, line
from pgstrata.traffic.upgrade.checklist.rehearsal import Answers
from pgstrata.workload.custom.confined import beginning

MOST_REFUSED = 0.05
"""Share of the definitions that both servers may refuse before the checklist says too little."""

_OF_EFFECT: Mapping[str, State] = {
    "refused": "before",
    "fails": "before",
    "starts": "before",
    "rebuild": "after",
    "answers": "look",
    "access": "look",
}
MOST_LETTERS = 160
"""Of a statement that meets a change."""

_ANALYZED = frozenset(("select", "insert", "update", "delete", "merge", "with", "values", "table"))
"""How statements begin that the parser looks up names and types of."""


def lines(material: Material) -> list[Line]:
    """Returns the checklist of one new version, in the order of `STATES`."""
    checklist = [
        *_refused(material),
        *_pg_upgrade(material),
        *_of_changes(material),
        *_removed_settings(material),
        *_reserved(material),
        *_shadowed(material),
        *lines_beside(material),
        *_unknown(material),
    ]
    order = list(STATES)
    return sorted(checklist, key=lambda entry: order.index(entry.state))


# --- what a server said -----------------------------------------------------------------------


def _refused(m: Material) -> Iterator[Line]:
    old, new = m.old, m.new
    definitions = [
        f"{m.rehearsal.texts[number]}: {error}"
        for number, error in new.definitions.items()
        if number not in old.definitions
    ]
    if definitions:
        yield line(
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
        yield line(
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
        yield line(
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
        yield line(
            "refused-by-both",
            "unknown" if len(both) > MOST_REFUSED * len(m.rehearsal.texts) else "look",
            "Definitions that both servers refuse here: what needs them was not checked",
            "Mostly a role or an extension that is missing here; load the dump of roles, too (pg_dumpall -g)",
            both,
        )
    of_old = [
        f"{m.rehearsal.texts[number]}: {error}"
        for number, error in m.old.definitions.items()
        if number not in m.new.definitions
    ]
    if of_old:
        yield line(
            "refused-by-old",
            "unknown" if len(of_old) > MOST_REFUSED * len(m.rehearsal.texts) else "look",
            f"Definitions that {m.old.version} refuses and {m.new.version} takes: a dump of a newer version?",
            f"Dump the database that runs {m.old.version}",
            of_old,
        )
    if newest := beyond_table(m.new.version_num):
        yield line(
            "beyond-table",
            "unknown",
            f"{m.new.version} is newer than the table of changes, which ends with {newest}",
            "Read the release notes of what is newer; a newer pgstrata may know it",
        )
    ids = {change.id: change for change in m.changes}
    unanswered = [f"{ids[name].title}: {why}" for name, why in m.old.unanswered.items() if name in ids]
    if unanswered:
        yield line(
            "unanswered",
            "unknown",
            f"{m.old.version} did not answer whether these are met",
            "Look yourself",
            unanswered,
        )


def _pg_upgrade(m: Material) -> Iterator[Line]:
    checked = m.rehearsal.checked.get(m.label)
    if checked is None:
        yield line(
            "pg-upgrade-check",
            "note",
            "pg_upgrade --check was not run: its programs are not in both installations. The catalogs were "
            "asked for the same conditions",
            "pg_upgrade --check -b OLD/bin -B NEW/bin -d OLD/data -D NEW/data on the day before",
        )
    elif checked.passed:
        yield line("pg-upgrade-check", "note", "pg_upgrade --check found nothing", checked.command)
    else:
        yield line(
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
            # Clusters of a comparison are made alike: what initdb does by itself is not seen there.
            yield line(change.id, "look", change.title, change.act, (), change.source)
        elif change.effect == "default":
            yield from _default(m, change)
        elif change.by_hand:
            yield line(change.id, "hand", change.title, change.act, (), change.source)
        else:
            objects = [*m.rehearsal.met.get(change.id, ())]
            if change.both and not any(change.meets(code) for _, code in definitions):
                continue
            if not change.both:
                objects += [
                    f"in {beginning(text, MOST_LETTERS)}" for text, code in definitions if change.meets(code)
                ]
                objects += [
                    f"statement {beginning(m.names[number], MOST_LETTERS)}"
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
    return line(change.id, state, change.title, act, objects, change.source)


def _fails_for_sure(change: Change) -> bool:
    return change.effect == "fails" and not change.perhaps


def _is_taken(m: Material, number: int) -> bool:
    """Returns whether the new server has looked up all of a statement and found nothing wrong."""
    words = [token.text.lower() for token in tokens(m.statements[number]) if token.kind == "word"]
    return words[:1] and words[0] in _ANALYZED and m.new.statements.get(number) == ""  # type: ignore[return-value]


def _set_to(m: Material, change: Change) -> Iterator[str]:
    """Yields the settings of a change in the config files and in ALTER ROLE or DATABASE."""
    for name, value in (*m.settings, *_altered(m.definitions)):
        if name in change.settings and (not change.values or re.fullmatch(change.values, value)):
            yield f"config {name} = {value}"


_ALTER_SET = re.compile(
    r"ALTER\s+(?:ROLE|USER|DATABASE)\s.*?\bSET\s+([\w.]+)\s*(?:=|\bTO\b)\s*(.*)\Z", re.IGNORECASE | re.DOTALL
)


def _altered(definitions: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in definitions:
        if match := _ALTER_SET.match(text):
            yield match[1].lower(), match[2].strip().strip("'")


def _default(m: Material, change: Change) -> Iterator[Line]:
    old, new = _defaults(m.old), _defaults(m.new)
    own_names = {name for name, _ in (*m.settings, *_altered(m.definitions))}
    differing = [
        f"{name}: {old[name]} → {new[name]}"
        for name in change.settings
        if name in old and name in new and old[name] != new[name] and name not in own_names
    ]
    only_new = [f"{name}: {new[name]}" for name in change.settings if name in new and name not in old]
    if differing or only_new:
        yield line(change.id, "note", change.title, change.act, [*differing, *only_new], change.source)


def _defaults(answers: Answers) -> dict[str, str]:
    defaults = {}
    for name, value, unit in answers.catalogs.get("defaults", ()):
        text = value or ""
        with_number = re.fullmatch(r"-?[0-9.]+", text)
        setting = Setting(str(name), 0, None, "real", unit or "", None, None, ())
        defaults[str(name)] = with_unit(setting, float(text)) if with_number else text
    return defaults


def _removed_settings(m: Material) -> Iterator[Line]:
    """Yields a line with the names in the user's files that the old server has and the new one lacks, except
    those in the table of changes."""
    old, new = _defaults(m.old), _defaults(m.new)
    known = {
        name
        for change in m.changes
        if change.effect == "starts" and not change.values
        for name in change.settings
    }
    gone = [
        f"config {name} = {value}"
        for name, value in (*m.settings, *_altered(m.definitions))
        if name in old and name not in new and name not in known and not PLACES.match(name)
    ]
    if gone:
        yield line(
            "settings-gone",
            "before",
            f"{m.new.version} does not know settings that are set: it does not start with them",
            "Leave them out of the file, or ALTER ROLE/DATABASE … RESET",
            gone,
        )


def _reserved(m: Material) -> Iterator[Line]:
    old, new = ({str(row[0]) for row in answers.catalogs.get("reserved", ())} for answers in (m.old, m.new))
    words = new - old
    names = [f"{row[0]} ({row[1]})" for row in m.old.catalogs.get("names", ()) if row[0] in words]
    if names:
        yield line(
            "reserved-words",
            "look",
            f"Names that are reserved words of {m.new.version}: statements have to quote them",
            'Write "name" in double quotes, or rename it',
            names,
        )


def _shadowed(m: Material) -> Iterator[Line]:
    old, new = ({str(row[0]) for row in answers.catalogs.get("shadowed", ())} for answers in (m.old, m.new))
    if names := sorted(new - old):
        yield line(
            "shadowed-functions",
            "look",
            f"{m.new.version} has functions of the same name and arguments: without a schema it calls them",
            "Write the schema in front of the name, or rename yours",
            names,
        )


__all__ = ["lines"]
