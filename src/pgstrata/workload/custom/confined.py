"""The role that executes what others have written, and what of a setup it may not do by itself.

On servers that pgstrata starts, statements of a setup, of scripts and of a log are executed by `CONFINED`,
which owns what it makes and is no superuser. What only a superuser may do and stays within the database
(an extension, an operator class, a role without rights) stands in functions of the schema `pgstrata_guard`,
one for each such statement and nothing else, that are there until all is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import psycopg

from pgstrata.errors import ServerError, UsageError, server_said
from pgstrata.server.config.settings import major_name, major_of
from pgstrata.server.connect.session import CONFINED
from pgstrata.server.features import Feature, Features
from pgstrata.sql_text import identifier
from pgstrata.workload.core.language import Admin, Work, WorkContext
from pgstrata.workload.custom.reaches import UNREACHABLE, Reaching, why_extension

FACT = "outside"
"""Key of a run's facts."""

GUARD = "pgstrata_guard"
_EXTENSION = re.compile(r"\A\s*CREATE\s+EXTENSION\s+(\"[^\"]+\"|[a-z_][\w$]*)\s*;?\s*\Z", re.IGNORECASE)

MOST_LISTED = 200

NO_ROLES = "PostgreSQL {version} is too old to confine statements to a role: its superuser executes them"


class NotLoaded(msgspec.Struct, frozen=True):
    """A statement of the setup that was not executed as it stands. what: its beginning; why: the reason."""

    what: str
    why: str


def beginning(text: str, letters: int = 120) -> str:
    """Returns the beginning of a statement in one line, without the part that may hold a password."""
    return _SECRET.split(" ".join(text.split()), maxsplit=1)[0][:letters]


_SECRET = re.compile(r"\s(?:OPTIONS\b|CONNECTION\b|(?:ENCRYPTED\s+)?PASSWORD\b)", re.IGNORECASE)


class Outside(msgspec.Struct, frozen=True):
    """What a run did with what reaches outside, as its facts keep it.

    role: who executed the workload's statements, None: the superuser or the DSN's user; allowed:
    `allow_outside`; left_out: of the setup, the first of `number`; note: of a server that cannot confine;
    settings: of dumps, those that the server lacks.
    """

    role: str | None
    allowed: bool
    left_out: list[NotLoaded]
    number: int
    note: str = ""
    settings: list[NotLoaded] = []


def outside_in(facts: Mapping[str, Any]) -> Outside | None:
    """Returns the record of what reaches outside, from the facts of a run; None if it has none."""
    try:
        return msgspec.convert(facts.get(FACT), Outside)
    except msgspec.ValidationError:
        return None


@dataclass
class Confinement:
    """What is left out of a setup, and what a superuser does for it, as its statements are gone through.

    allowed: everything is executed as it stands, by the superuser; loads: there is a setup.
    """

    server: Features
    allowed: bool
    loads: bool = False
    reaching: Reaching = field(default_factory=Reaching)
    left_out: list[NotLoaded] = field(default_factory=list)
    settings: list[NotLoaded] = field(default_factory=list)
    guarded: list[tuple[str, str]] = field(default_factory=list)

    @property
    def has_role(self) -> bool:
        """Whether statements are executed by `CONFINED`."""
        return not self.allowed and self.server.has(Feature.ROLES)

    def statement(self, text: str) -> str:
        """Returns the statement that is executed instead of `text`, empty for none."""
        text = _EXTENSION.sub(r"CREATE EXTENSION IF NOT EXISTS \1", text)  # a build's extensions are there
        if self.allowed:
            return text
        treatment = self.reaching.treatment(text)
        if treatment.why:
            self.left_out.append(NotLoaded(beginning(text), treatment.why))
        if not treatment.superuser or not self.has_role:
            return treatment.text
        self.guarded.append((treatment.text, _role_made(treatment.text)))
        return f"SELECT {GUARD}.s{len(self.guarded)}()"

    def copied(self, text: str) -> bool:
        """Returns whether rows are loaded."""
        if self.allowed or not (why := self.reaching.copied(text).why):
            return True
        self.left_out.append(NotLoaded(beginning(text), why))
        return False

    def check_extensions(self, names: Sequence[str]) -> None:
        """Raises UsageError for an extension that is asked for by name and reaches outside."""
        for name in names:
            if not self.allowed and (why := why_extension(name)):
                raise UsageError(
                    f"the extension {name} {why}, and is left out unless that is allowed",
                    "leave it out of `extensions`, or allow it: --allow-outside",
                )

    # --- phases -------------------------------------------------------------------------------

    def begin(self) -> Work:
        """Makes the role and the functions, and keeps what was left out as a fact."""
        note = ""
        if not self.allowed and not self.has_role:
            note = NO_ROLES.format(version=major_name(major_of(self.server.version_num)))
        outside = Outside(
            CONFINED if self.has_role else None,
            self.allowed,
            self.left_out[:MOST_LISTED],
            len(self.left_out),
            note,
            list(dict.fromkeys(self.settings))[:MOST_LISTED],
        )
        decided = {"role": outside.role, "statements": [text for text, _ in self.guarded]}
        return Work("confine", partial(_begin, self, outside), decided, list(_lines(outside)))

    def end(self) -> list[Admin]:
        """Takes the functions away when all is loaded, and looks whether the role is what it should be."""
        if not self.has_role or not self.loads:
            return []
        return [Admin("confine", [f"SELECT {GUARD}.finish()", f"DROP SCHEMA {GUARD} CASCADE"])]


def _lines(outside: Outside) -> list[str]:
    lines = [f"left out: {left_out.what}: {left_out.why}" for left_out in outside.left_out[:20]]
    if outside.number > len(lines):
        lines.append(f"left out: {outside.number - len(lines)} more")
    return [*lines, *([outside.note] if outside.note else [])]


def _begin(confinement: Confinement, outside: Outside, context: WorkContext) -> Mapping[str, Any]:
    for line in _lines(outside):
        context.say(f"  {line}")
    try:
        with context.connect() as connection:
            if not context.managed:
                _check_dsn(connection, confinement.allowed)
                outside = msgspec.structs.replace(outside, role=None)
            elif confinement.has_role:
                _make_role(connection)
            if confinement.has_role and confinement.loads:
                _make_guard(connection, confinement.guarded, managed=context.managed)
    except psycopg.Error as error:
        raise ServerError(
            f"the role {CONFINED} cannot be made: {server_said(error)}",
            "allow_outside = true does without it",
        ) from error
    return {FACT: msgspec.to_builtins(outside)}


def _check_dsn(connection: psycopg.Connection[Any], allowed: bool) -> None:
    """Raises ServerError if the DSN's user is a superuser and that is not allowed: on a server that pgstrata
    did not start this user executes everything."""
    row = connection.execute(
        "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
    ).fetchone()
    if row is not None and row[0] and not allowed:
        raise ServerError(
            f"{connection.info.user} is a superuser: statements of a setup, a script or a log could read "
            "files, execute programs and connect to other servers",
            "name a user in the DSN that is no superuser, or allow it: --allow-outside",
        )


def _make_role(connection: psycopg.Connection[Any]) -> None:
    """Creates the role, which reads what a superuser could of the catalogs, and owns the schema public."""
    role, database = identifier(CONFINED), identifier(connection.info.dbname)
    has = _Catalogs(connection)
    if not has.row("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %s", CONFINED):
        # It bypasses policies as the superuser did that executed logs and dumps before.
        more = [word for column, word in _ATTRIBUTES.items() if has.column("pg_authid", column)]
        _run(connection, f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE {' '.join(more)}")
    if has.row("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = 'pg_monitor'"):
        _run(connection, f"GRANT pg_monitor TO {role}")
    _run(connection, f"GRANT ALL ON DATABASE {database} TO {role}")
    _run(connection, f"ALTER SCHEMA public OWNER TO {role}")
    for (name,) in connection.execute(_CLOSED_CATALOGS, [CONFINED]).fetchall():
        _run(connection, f"GRANT SELECT ON pg_catalog.{identifier(name)} TO {role}")
    for (function,) in connection.execute(_RESETS, [CONFINED]).fetchall():
        _run(connection, f"GRANT EXECUTE ON FUNCTION {function} TO {role}")
    if has.column("pg_foreign_data_wrapper", "fdwname"):
        _run(connection, f"CREATE FOREIGN DATA WRAPPER {UNREACHABLE}")
        _run(connection, f"GRANT USAGE ON FOREIGN DATA WRAPPER {UNREACHABLE} TO {role}")
    if not has.row("SELECT 1 FROM pg_catalog.pg_language WHERE lanname = 'plpgsql'"):
        _run(connection, "CREATE LANGUAGE plpgsql")  # until 9.0 not there from the start


_ATTRIBUTES = {"rolreplication": "NOREPLICATION", "rolbypassrls": "BYPASSRLS"}

_CLOSED_CATALOGS = """
SELECT relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE nspname = 'pg_catalog' AND relkind IN ('r', 'v') AND NOT has_table_privilege(%s, c.oid, 'SELECT')
"""
"""Of the catalogs those that are not readable for everybody."""

_RESETS = r"""
SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE nspname = 'pg_catalog' AND proname ~ '^pg_stat_reset'
AND NOT has_function_privilege(%s, p.oid, 'EXECUTE')
"""


class _Catalogs:
    """What the catalogs of a server have: asked, because versions in development differ from their number."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def row(self, query: str, *values: str) -> bool:
        """Returns whether a query has a row."""
        return self._connection.execute(query.encode(), values).fetchone() is not None

    def column(self, table: str, column: str) -> bool:
        """Returns whether a catalog has a column."""
        return self.row(
            "SELECT 1 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE nspname = 'pg_catalog' AND relname = %s AND attname = %s",
            table,
            column,
        )


def _make_guard(
    connection: psycopg.Connection[Any], guarded: Sequence[tuple[str, str]], *, managed: bool
) -> None:
    """Creates the schema with the functions that execute guarded statements. managed: the role is there, and
    gets what extensions and new roles have."""
    _run(connection, f"CREATE SCHEMA {GUARD}")
    has = _Catalogs(connection)
    nothing = "BEGIN RETURN; END"
    _function(connection, "share", _SHARE if managed and has.column("pg_extension", "extname") else nothing)
    detach = _DETACH if has.column("pg_foreign_table", "ftrelid") else "BEGIN"
    _function(connection, "finish", _FINISH.format(detach=detach) if managed else nothing)
    for number, (text, role) in enumerate(guarded, 1):
        _function(connection, f"s{number}", _guarded(text, role, grant=managed), definer=True)
    if managed:
        _run(connection, f"GRANT USAGE ON SCHEMA {GUARD} TO {identifier(CONFINED)}")


def _function(connection: psycopg.Connection[Any], name: str, body: str, *, definer: bool = False) -> None:
    tag = "$pgstrata_body$"
    how = "SECURITY DEFINER" if definer else ""
    _run(
        connection,
        f"CREATE FUNCTION {GUARD}.{name}() RETURNS void LANGUAGE plpgsql {how} AS {tag} {body} {tag}",
    )
    if not definer:
        _run(connection, f"REVOKE ALL ON FUNCTION {GUARD}.{name}() FROM PUBLIC")


def _guarded(text: str, role: str, *, grant: bool) -> str:
    """Returns the body of a function that executes one statement. Operators are those of pg_catalog, whatever
    the search path is."""
    tag = "$pgstrata_text$"
    if tag in text or "$pgstrata_body$" in text:
        raise UsageError(f"a statement holds {tag}: {text[:80]}", "write it otherwise")
    if not role:
        return f"BEGIN EXECUTE {tag}{text}{tag}; PERFORM {GUARD}.share(); END"
    granted = f"EXECUTE {tag}GRANT {identifier(role)} TO {identifier(CONFINED)}{tag}; " if grant else ""
    return (
        "BEGIN IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles "
        f"WHERE rolname OPERATOR(pg_catalog.=) {tag}{role}{tag}::pg_catalog.name) THEN "
        f"EXECUTE {tag}{text}{tag}; {granted}END IF; END"
    )


def _role_made(text: str) -> str:
    """Returns the role of CREATE ROLE, as the server keeps its name; empty for other statements."""
    name = text.removeprefix("CREATE ROLE ")
    if name == text:
        return ""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _run(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())


_SHARE = f"""
DECLARE r record;
BEGIN
FOR r IN SELECT c.oid::pg_catalog.regclass::text AS name, c.relkind FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.objid
    WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
    AND d.deptype OPERATOR(pg_catalog.=) 'e' AND c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,v,m,S,p}}')
LOOP
    EXECUTE pg_catalog.concat('GRANT ALL ON ', CASE WHEN r.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE '
        ELSE 'TABLE ' END, r.name, ' TO {CONFINED}');
END LOOP;
FOR r IN SELECT p.oid::pg_catalog.regprocedure::text AS name FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) d.objid
    WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
    AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
    AND d.deptype OPERATOR(pg_catalog.=) 'e' AND p.proname OPERATOR(pg_catalog.~) '^pg_stat_.*reset'
LOOP
    EXECUTE pg_catalog.concat('GRANT EXECUTE ON FUNCTION ', r.name, ' TO {CONFINED}');
END LOOP;
END
"""
"""What an extension made is the superuser's: its tables are filled by dumps, and its counters set back."""

_DETACH = """
DECLARE r record;
BEGIN
FOR r IN SELECT i.inhrelid::pg_catalog.regclass::text AS child,
    i.inhparent::pg_catalog.regclass::text AS parent, p.relkind
    FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    JOIN pg_catalog.pg_class p ON p.oid = i.inhparent WHERE c.relkind = 'f'
LOOP
    IF r.relkind = 'p' THEN
        EXECUTE pg_catalog.concat('ALTER TABLE ', r.parent, ' DETACH PARTITION ', r.child);
    ELSE
        EXECUTE pg_catalog.concat('ALTER FOREIGN TABLE ', r.child, ' NO INHERIT ', r.parent);
    END IF;
END LOOP;
"""
"""Foreign tables are no partitions: their parents would be neither analyzed nor read."""

_FINISH = f"""{{detach}}
PERFORM {GUARD}.share();
IF EXISTS (SELECT 1 FROM pg_catalog.pg_roles m WHERE pg_catalog.pg_has_role('{CONFINED}', m.oid, 'MEMBER')
    AND (m.rolsuper OR m.rolcreaterole OR m.rolname IN
        ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')))
THEN
    RAISE EXCEPTION 'the role {CONFINED} can become a superuser, or leave the database';
END IF;
END
"""


__all__ = [
    "FACT",
    "GUARD",
    "MOST_LISTED",
    "Confinement",
    "NotLoaded",
    "Outside",
    "beginning",
    "outside_in",
]
