"""What makes the data: SQL files, dumps and files of rows, as load steps that the driver does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pgstrata.errors import ServerError
from pgstrata.files import digests
from pgstrata.files.user_files import shown
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.settings import history
from pgstrata.server.features import Feature, Features
from pgstrata.sql_text import identifier, literal
from pgstrata.workload.core.language import (
    Admin,
    CopyFile,
    Headline,
    Op,
    Phase,
    Role,
    Script,
    Sql,
    Step,
    Work,
    WorkContext,
)
from pgstrata.workload.core.queries import limited_to
from pgstrata.workload.core.shares import each_its_own, spread
from pgstrata.workload.custom.confined import Confinement, NotLoaded, beginning
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.files import read
from pgstrata.workload.custom.known_tables import NAME, check_tables, look_for_tables
from pgstrata.workload.custom.options import CustomOptions, Rows
from pgstrata.workload.custom.reaches import SETTINGS
from pgstrata.workload.custom.rows import rows_of_table, tables_of_folder
from pgstrata.workload.custom.source import Check, CopyBlock, Say, Source
from pgstrata.workload.custom.sql import SqlStatement

DATABASE = "pgstrata"
"""Where pgstrata works unless the DSN of a running server names another database."""

MOST_TABLES = 200
"""Whose sizes are recorded: asking for each takes time between steps."""

COPIED, INDEXED = 15e6, 30e6
"""Bytes of rows per second and connection, a small current server: for estimates only."""

Unpack = Callable[[Say, Check], None]

_TABLE = re.compile(
    rf"CREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{NAME}(\s+PARTITION\s+OF\b)?", re.I
)
_ATTACHED = re.compile(rf"ALTER\s+TABLE\s.*\sATTACH\s+PARTITION\s+{NAME}", re.I | re.S)
_EXTENSION = re.compile(r'CREATE\s+EXTENSION\s+(?:IF\s+NOT\s+EXISTS\s+)?("(?:[^"]|"")+"|[\w$]+)', re.I)
_SET = re.compile(r"SET\s+(?:SESSION\s+)?(\w+)\s*(?:=|\bTO\b)", re.I)
_SEARCH_PATH = re.compile(r"SET\s+search_path\b|SELECT\s+pg_catalog\.set_config\('search_path'", re.I)
_KEPT_SETTING = re.compile(
    r"SET\s+(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b)|RESET\s|DISCARD\s+ALL\b"
    r"|SELECT\s+(?:pg_catalog\.)?set_config\(.*,\s*false\s*\)\Z",
    re.I | re.S,
)
_NO_SEARCH_PATH = re.compile(r"SELECT\s+pg_catalog\.set_config\('search_path',\s*'',\s*false\)", re.I)
_ROLE = re.compile(r"CREATE\s+(?:ROLE|USER|GROUP)\s+(?!MAPPING\b)", re.I)
_BODY = "$pgstrata$"
# lo_create stands with the schema.
_VALUES = re.compile(r"INSERT\s+INTO\b|SELECT\s+pg_catalog\.(?:setval|lo_open|lowrite|lo_close)\b", re.I)
_INDEX = re.compile(
    rf"CREATE\s+(?:UNIQUE\s+)?INDEX\s.*?\sON\s+(?:ONLY\s+)?{NAME}"
    rf"|ALTER\s+TABLE\s+(?:ONLY\s+)?{NAME}\s+ADD\s+CONSTRAINT\s+\S+\s+(?:PRIMARY\s+KEY|UNIQUE|EXCLUDE)\b",
    re.I | re.S,
)
_INTO = re.compile(rf"COPY\s+{NAME}", re.I)
_INSERT = re.compile(rf"INSERT\s+INTO\s+{NAME}", re.I)
_TRANSACTION = re.compile(
    r"BEGIN\b|COMMIT\b|START\s+TRANSACTION\b|SELECT\s+pg_catalog\.(?:lo_open|lowrite|lo_close)\b", re.I
)
# Of owners, privileges and replication, which a benchmark has none of; what is there in every database; and
# what only psql's own session is for.
_SUBSCRIPTION = re.compile(r"CREATE\s+SUBSCRIPTION\s", re.I)
_OF_DATABASE = re.compile(r'ALTER\s+DATABASE\s+(?:"(?:[^"]|"")+"|\S+)\s+SET\s+(?!TABLESPACE\b)', re.I)
_LEFT_OUT = re.compile(
    r"ALTER\s.*\sOWNER\s+TO\s+\S+\Z|GRANT\s|REVOKE\s|ALTER\s+DEFAULT\s+PRIVILEGES\s|SECURITY\s+LABEL\s"
    r"|COMMENT\s+ON\s+(?:EXTENSION\s|SCHEMA\s+public\s|DATABASE\s)|(?:CREATE|ALTER)\s+SCHEMA\s+public\b"
    r"|(?:CREATE|ALTER)\s+(?:PUBLICATION|SUBSCRIPTION|DATABASE)\s",
    re.I | re.S,
)


@dataclass
class Setup:
    """Phases that make the data, the tables they make, and the extensions they need. bytes: of rows;
    confinement: what of it is left out, and whether a role of its own executes it."""

    confinement: Confinement
    phases: list[Phase] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)
    bytes: int = 0


def setup(o: CustomOptions, server: Features, after: Sequence[str] = ()) -> Setup:
    """Returns the setup for a server with these features. after: statements that are executed when all is
    loaded.

    Raises UsageError for files that cannot be read as what they are.
    """
    confinement = Confinement(server, o.allow_outside, loads=bool(o.setup))
    confinement.check_extensions(o.extensions)
    sources: list[Source | Sequence[Rows]] = []
    names: list[str] = []
    files: list[str] = []
    unsure: dict[int, list[Rows]] = {}
    for item in o.setup:
        if isinstance(item, str):
            sources.append(_confined_file(o, item, server, confinement))
            names.append(Path(item).stem)
            files.append(item)
            continue
        rows = [item] if item.folder is None else tables_of_folder(item, _tables(_items(sources)))
        is_known = item.folder is not None or check_tables(rows, _items(sources), bool(o.extensions))
        if sources and not isinstance(sources[-1], Source):
            sources[-1] = [*sources[-1], *rows]  # files of rows that follow each other are loaded together
        else:
            sources.append(rows)
            names.append("rows")
            files.append("")
        if not is_known:
            unsure.setdefault(len(sources) - 1, []).extend(rows)
    steps: list[Step | Work] = []
    wanted: list[Unpack] = []
    size = 0
    settings: list[SqlStatement] = []
    for number, (file, name, source) in enumerate(zip(files, names, sources, strict=True)):
        if number in unsure:
            look = partial(look_for_tables, unsure[number], tuple(settings), confinement.has_role)
            steps.append(Work("tables", look, {}))
        if isinstance(source, Source):
            new_steps = _of_dump(o, name, source, server) if source.dump else [_of_script(o, name, source)]
            confinement.settings += _settings_lacking(source, server) if source.dump else []
            places = _places(file, source)
            steps += [replace(_with_settings(step, settings), places=places) for step in new_steps]
            settings += _settings_left(source, server)
            wanted.append(source.unpack)
            size += source.bytes
        else:
            blocks, unpack = _of_rows(o, source)
            copied = _copied(o, name, [(None, block) for block in blocks])
            steps.append(_with_settings(copied, settings))
            wanted += unpack
            size += sum(block.bytes for block in blocks)
    later = [text for statement in after if (text := confinement.statement(statement))]
    statements = _items(sources)
    tables = list(o.tables) if o.tables is not None else _tables(statements)[:MOST_TABLES]
    seen: dict[str, int] = {}
    phases: list[Phase] = [confinement.begin()]
    confined = confinement.has_role
    if o.setup:
        # The steps of the load say what else decides the data; of files of rows they know the names only.
        phases.append(Work("files", partial(_prepare, wanted), {"contents": _contents(o)}))
    if o.extensions:
        phases.append(
            Admin(
                "extensions", [f"CREATE EXTENSION IF NOT EXISTS {identifier(name)}" for name in o.extensions]
            )
        )
    for step in steps:
        if isinstance(step, Work):
            phases.append(step)
            continue
        seen[step.name] = number = seen.get(step.name, 0) + 1
        name = step.name if number == 1 else f"{step.name}-{number}"
        phases.append(replace(step, name=name, tables=tables, confined=confined))
    if later:
        phases.append(Admin("after-load", later, confined=confined))
    phases += confinement.end()
    return Setup(confinement, phases, tables, [*o.extensions, *_extensions(statements)], size)


def _items(sources: Sequence[Source | Sequence[Rows]]) -> list[SqlStatement | CopyBlock]:
    return [item for source in sources if isinstance(source, Source) for item in source.items]


def executed(o: CustomOptions, server: Features) -> tuple[Confinement, list[list[SqlStatement | CopyBlock]]]:
    """Returns the statements and blocks of rows of each file as a server with these features executes them,
    and how they are confined. Raises UsageError for files that cannot be read as what they are."""
    confinement = Confinement(server, o.allow_outside, loads=True)
    sources = [_confined_file(o, item, server, confinement) for item in o.setup if isinstance(item, str)]
    files = [
        [
            item
            for item in source.items
            if isinstance(item, CopyBlock) or not source.dump or _fits(item, server)
        ]
        for source in sources
    ]
    return confinement, files


def definitions(o: CustomOptions, server: Features) -> tuple[Confinement, list[list[SqlStatement]]]:
    """Returns the result of `executed` reduced to the statements that define something: all but those that
    make rows."""
    confinement, files = executed(o, server)
    return confinement, [
        [item for item in items if isinstance(item, SqlStatement) and not _VALUES.match(item.text)]
        for items in files
    ]


def key_of(item: SqlStatement | CopyBlock) -> str:
    """Returns what `without` names a statement by."""
    written = item.written if isinstance(item, SqlStatement) else ""
    return digests.of(written or item.text)[:16]


def extension_of(item: SqlStatement | CopyBlock) -> str:
    """Returns the extension that a statement creates, empty for any other."""
    text = "" if isinstance(item, CopyBlock) else item.written or item.text
    match = _EXTENSION.match(text)
    return match[1].strip('"').replace('""', '"') if match else ""


def table_filled(item: SqlStatement | CopyBlock) -> str:
    """Returns the table that rows go into, empty for what is no row."""
    match = (_INTO if isinstance(item, CopyBlock) else _INSERT).match(item.text)
    return match[1] if match else ""


def is_transaction(item: SqlStatement | CopyBlock) -> bool:
    """Returns whether a statement begins or ends a transaction, or writes a large object within one."""
    return isinstance(item, SqlStatement) and _TRANSACTION.match(item.text) is not None


def _confined_file(o: CustomOptions, file: str, server: Features, confinement: Confinement) -> Source:
    """Reads a file of the setup; its items are as they are executed."""
    source = read(Path(file), o.contents.get(file, ""))
    items = (_role_unless_there(item, server) for item in _confined(source, confinement, o.without))
    return replace(source, items=tuple(items))


def _confined(
    source: Source, confinement: Confinement, without: Mapping[str, str]
) -> Iterator[SqlStatement | CopyBlock]:
    """Yields the items of a source that are executed, as they are executed."""
    for item in source.items:
        if without and (why := without.get(key_of(item))):
            confinement.left_out.append(NotLoaded(beginning(item.text), why))
            continue
        if isinstance(item, CopyBlock):
            if confinement.copied(item.text):
                yield item
        elif source.dump and _LEFT_OUT.match(item.text) and not _SUBSCRIPTION.match(item.text):
            if _OF_DATABASE.match(item.text):
                confinement.left_out.append(NotLoaded(beginning(item.text), SETTINGS))
        elif text := confinement.statement(item.text):
            yield item if text == item.text else replace(item, text=text, written=item.text)


def _role_unless_there(item: SqlStatement | CopyBlock, server: Features) -> SqlStatement | CopyBlock:
    """Returns CREATE ROLE without an error if the role exists: pg_dumpall creates the superuser, too."""
    if (
        isinstance(item, CopyBlock)
        or not _ROLE.match(item.text)
        or not server.has(Feature.DO_BLOCKS)
        or _BODY in item.text
    ):
        return item
    text = f"DO {_BODY}BEGIN {item.text}; EXCEPTION WHEN duplicate_object THEN NULL; END{_BODY}"
    return replace(item, text=text)


def _settings_left(source: Source, server: Features) -> list[SqlStatement]:
    """Returns the settings that a file leaves in its session, as far as a next file of `psql -f A -f B` would
    have them.

    An archive leaves nothing: pg_restore has a session of its own. Nor does the empty search path that
    pg_dump sets for its own statements: after it no file could be loaded that names tables without schema.
    """
    return [
        item
        for item in source.items
        if isinstance(item, SqlStatement)
        and not item.within
        and _KEPT_SETTING.match(item.text)
        and not _NO_SEARCH_PATH.match(item.text)
        and _fits(item, server)
    ]


def _with_settings(step: Step, settings: Sequence[SqlStatement]) -> Step:
    """Returns the step with these statements at the beginning of each of its connections."""
    start = [_op(item) for item in settings]
    return replace(step, roles=[replace(role, start=[*role.start, *start]) for role in step.roles])


def _places(file: str, source: Source) -> dict[str, str]:
    """Returns the place of each statement of a file, by its text; the first place of a statement that comes
    again."""
    places: dict[str, str] = {}
    for item in source.items:
        within = item.within if isinstance(item, SqlStatement) else ""
        line = f", line {item.line} of {within}" if within else f":{item.line}" if item.line else ""
        places.setdefault(item.text, f"{shown(file)}{line}")
    return places


def _contents(o: CustomOptions) -> dict[str, str]:
    files = [file for item in o.setup for file in ([item] if isinstance(item, str) else item.paths)]
    return {file: o.contents.get(file, "") for file in files}


def _prepare(wanted: Sequence[Unpack], context: WorkContext) -> Mapping[str, Any]:
    """Makes the files of all rows, before any is loaded. Raises ServerError for a DSN that names a
    database."""
    with context.connect() as connection:
        database = connection.info.dbname
    if database != DATABASE:
        raise ServerError(
            f"`setup` would be loaded into database {database} of a running server, where what it makes "
            "could not be told from what is there",
            "name a DSN without a database: pgstrata makes one of its own and drops it; or leave out `setup`",
        )
    for unpack in wanted:
        unpack(context.say, context.check)
    return {}


# --- steps ------------------------------------------------------------------------------------


def _of_script(o: CustomOptions, name: str, script: Source) -> Step:
    """Returns the step that loads a SQL file as it stands, on one connection."""
    return _step(o, name, [[_op(item) for item in script.items]], script.bytes / COPIED)


def _of_dump(o: CustomOptions, name: str, dump: Source, server: Features) -> list[Step]:
    """Returns the steps that load a dump: schema, rows, indexes, and what is left, as pg_restore does it with
    several jobs."""
    items = [item for item in dump.items if isinstance(item, CopyBlock) or _fits(item, server)]
    data = [n for n, item in enumerate(items) if isinstance(item, CopyBlock) or _VALUES.match(item.text)]
    first, behind = (data[0], data[-1] + 1) if data else (len(items), len(items))
    # Large objects are written within transactions.
    first -= first > 0 and _is(items[first - 1], "BEGIN")
    behind += behind < len(items) and _is(items[behind], "COMMIT")
    sessions = _sessions(items)
    steps = []
    if items[:first]:
        steps.append(_step(o, f"{name}.schema", [[_op(item) for item in items[:first]]], 1.0))
    if items[first:behind]:
        steps.append(_copied(o, f"{name}.rows", list(zip(sessions, items, strict=True))[first:behind]))
    later = [
        (s, i) for s, i in zip(sessions[behind:], items[behind:], strict=True) if isinstance(i, SqlStatement)
    ]
    indexes = [(s, i) for s, i in later if _INDEX.match(i.text)]
    if indexes:
        steps.append(_indexed(o, f"{name}.indexes", indexes, dump))
    if rest := [i for _, i in later if not _INDEX.match(i.text)]:
        before = sessions[behind]
        begin = [] if before is None else [_op(before)]
        steps.append(_step(o, f"{name}.constraints", [[*begin, *map(_op, rest)]], 1 + dump.bytes / INDEXED))
    return steps


def _is(item: SqlStatement | CopyBlock, command: str) -> bool:
    return isinstance(item, SqlStatement) and item.text.upper() == command


def _copied(
    o: CustomOptions, name: str, work: Sequence[tuple[SqlStatement | None, SqlStatement | CopyBlock]]
) -> Step:
    """Returns the step that loads blocks over connections; single statements between them (values of
    sequences) on the first."""
    blocks = [(session, item) for session, item in work if isinstance(item, CopyBlock)]
    shares = spread(
        blocks, max(1, min(o.load_connections, len(blocks))), lambda pair: float(pair[1].bytes or 1)
    )
    ops = [[op for session, block in share for op in _in_session(session, block)] for share in shares]
    ops[0] += [
        op for session, item in work if isinstance(item, SqlStatement) for op in _in_session(session, item)
    ]
    return _step(o, name, ops, 1 + sum(b.bytes for _, b in blocks) / COPIED / len(shares))


def _indexed(
    o: CustomOptions, name: str, work: Sequence[tuple[SqlStatement | None, SqlStatement]], dump: Source
) -> Step:
    """Returns the step that makes indexes: all of one table on one connection, tables at the same time, so
    that no connection waits for another's lock."""
    sizes: dict[str, int] = {}
    for item in dump.items:
        if isinstance(item, CopyBlock) and (into := _INTO.match(item.text)):
            sizes[into[1]] = sizes.get(into[1], 0) + item.bytes
    by_table: dict[str, list[Op]] = {}
    for session, item in work:
        match = _INDEX.match(item.text)
        assert match is not None
        by_table.setdefault(match[1] or match[2], []).extend(_in_session(session, item))
    connections = max(1, min(o.load_connections, len(by_table)))
    shares = spread(list(by_table), connections, lambda table: 1.0 + sizes.get(table, 0))
    ops = [[op for table in share for op in by_table[table]] for share in shares]
    return _step(o, name, ops, 1 + dump.bytes / INDEXED / len(shares))


def _of_rows(o: CustomOptions, rows: Sequence[Rows]) -> tuple[list[CopyBlock], list[Unpack]]:
    blocks, unpack = [], []
    for item in rows:
        how = f"CSV{' HEADER' * item.header} DELIMITER {literal(item.delimiter)} NULL {literal(item.null)}"
        if item.escape != '"':
            how += f" ESCAPE {literal(item.escape)}"
        for file in item.files:
            digest = o.contents.get(file) or digest_of(Path(file))
            pair = rows_of_table(item.table, Path(file), digest, item.columns, how)
            blocks.append(pair[0])
            unpack.append(pair[1])
    return blocks, unpack


def _step(o: CustomOptions, name: str, shares: Sequence[Sequence[Op]], seconds: float) -> Step:
    """Returns a step that is one operation of all connections together, judged by how often it could be done
    in an hour."""
    return Step(
        f"load.{name}",
        [
            Role(
                "load",
                len(shares),
                [Script(*each_its_own(shares))],
                operations=1,
                start=[limited_to(o.load_limit)],
            )
        ],
        Headline("load", "operations", "loads/h", fixed=1.0),
        group="load",
        measured=o.judge_load,
        load=not o.judge_load,
        judged_load=o.judge_load,
        estimated_seconds=seconds,
    )


def _op(item: SqlStatement | CopyBlock) -> Op:
    written = item.written or item.text if isinstance(item, SqlStatement) else item.text
    name = beginning(written, 80)
    return (
        CopyFile(item.text, str(item.file), name=name)
        if isinstance(item, CopyBlock)
        else Sql.verbatim(item.text, name=name)
    )


def _in_session(session: SqlStatement | None, item: SqlStatement | CopyBlock) -> list[Op]:
    return [_op(item)] if session is None else [_op(session), _op(item)]


# --- what is in the statements ----------------------------------------------------------------


def _fits(statement: SqlStatement, server: Features) -> bool:
    """Returns whether a dump's statement is for the data and not a setting that this server lacks."""
    if _LEFT_OUT.match(statement.text):
        return False
    match = _SET.match(statement.text)
    # A limit on time would take the place of ours.
    return match is None or (match[1].lower() != "statement_timeout" and _has_setting(server, match[1]))


def _has_setting(server: Features, name: str) -> bool:
    """Returns whether a server has a setting: by its own answer, else its programs', else the table of
    versions."""
    if not history(name.lower()):
        return True  # of an extension, or newer than the table: the server answers
    if server.settings is not None:
        return name.lower() in server.settings
    return KnownSettings(server.version_num, server.programs).has(name.lower())


def _settings_lacking(dump: Source, server: Features) -> list[NotLoaded]:
    """Returns the settings of a dump that this server lacks: they are left out."""
    sets = [i for i in dump.items if isinstance(i, SqlStatement) and _SET.match(i.text)]
    return [
        NotLoaded(beginning(item.text), "the server has no setting of this name")
        for item in sets
        if not _LEFT_OUT.match(item.text)
        and (match := _SET.match(item.text)) is not None
        and not _has_setting(server, match[1])
    ]


def _sessions(items: Sequence[SqlStatement | CopyBlock]) -> list[SqlStatement | None]:
    """Returns the statement that sets the search path for each item; None before the first."""
    now: SqlStatement | None = None
    sessions = []
    for item in items:
        if isinstance(item, SqlStatement) and _SEARCH_PATH.match(item.text):
            now = item
        sessions.append(now)
    return sessions


def _tables(items: Sequence[SqlStatement | CopyBlock]) -> list[str]:
    """Returns the tables that statements make, without partitions: their sizes are counted with their
    parent's."""
    tables: list[str] = []
    parts: set[str] = set()
    for item in items:
        if isinstance(item, CopyBlock):
            continue
        if match := _TABLE.match(item.text):
            (parts.add if match[2] else tables.append)(match[1])
        elif match := _ATTACHED.match(item.text):
            parts.add(match[1])
    return list(dict.fromkeys(name.removeprefix("public.") for name in tables if name not in parts))


def _extensions(items: Sequence[SqlStatement | CopyBlock]) -> list[str]:
    return list(dict.fromkeys(name for item in items if (name := extension_of(item))))


__all__ = ["Setup", "definitions", "setup"]
