"""What of a dump, a script or a log reaches outside the cluster, told from the text of its statements.

The text only says beforehand what will be left out, and why. What keeps it inside is the server: statements
are executed by a role that is no superuser (`confined`), on a server without a network.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pgstrata.sql_tokens import Token, tokens

OTHER_SERVERS = "connects to other servers"
LEADS_NOWHERE = "connects to other servers: made, but leads nowhere"
FILES = "reads or writes files of the server's machine"
PROGRAMS = "executes programs, or code without the limits of a database role"
BY_ITSELF = "works by itself, in the background"
CONFIGURATION = "changes the server's configuration"
LIBRARY = "executes code of a library"
EVENT_TRIGGER = "fires at commands of everybody, which needs a superuser"
ROLES = "all sessions are those of one user: roles are made without their attributes"
SETTINGS = "all sessions are those of one user: write what is set for a role or a database into a config file"


@dataclass(frozen=True)
class Reach:
    """Why an extension is left out. functions: pattern of the names of its functions; schemas: those it
    makes."""

    why: str
    functions: str = ""
    schemas: tuple[str, ...] = ()


EXTENSIONS: Mapping[str, Reach] = {
    "adminpack": Reach(FILES, r"pg_file_\w+|pg_logdir_ls"),
    "amqp": Reach(OTHER_SERVERS, schemas=("amqp",)),
    "aws_commons": Reach(OTHER_SERVERS, schemas=("aws_commons",)),
    "aws_lambda": Reach(OTHER_SERVERS, schemas=("aws_lambda",)),
    "aws_ml": Reach(OTHER_SERVERS, schemas=("aws_comprehend", "aws_sagemaker", "aws_bedrock")),
    "aws_s3": Reach(OTHER_SERVERS, schemas=("aws_s3",)),
    "azure_ai": Reach(OTHER_SERVERS, schemas=("azure_ai", "azure_openai", "azure_cognitive", "azure_ml")),
    "azure_storage": Reach(OTHER_SERVERS, schemas=("azure_storage",)),
    "bdr": Reach(OTHER_SERVERS, schemas=("bdr",)),
    "citus": Reach(
        OTHER_SERVERS, r"citus_\w+|create_distributed_table\w*|create_reference_table|run_command_on_\w+"
    ),
    "dblink": Reach(OTHER_SERVERS, r"dblink\w*"),
    "google_ml_integration": Reach(OTHER_SERVERS, schemas=("google_ml",)),
    "http": Reach(
        OTHER_SERVERS, r"http|http_(?:get|post|put|patch|delete|head|header|(?:set|reset|list)_curlopt)"
    ),
    "multicorn": Reach(OTHER_SERVERS),
    "pg_background": Reach(BY_ITSELF, r"pg_background_\w+"),
    "pg_cron": Reach(BY_ITSELF, schemas=("cron",)),
    "pg_net": Reach(OTHER_SERVERS, schemas=("net",)),
    "pg_timetable": Reach(BY_ITSELF, schemas=("timetable",)),
    "pgactive": Reach(OTHER_SERVERS, schemas=("pgactive",)),
    "pgagent": Reach(BY_ITSELF, schemas=("pgagent",)),
    "pglogical": Reach(OTHER_SERVERS, schemas=("pglogical",)),
    "pglogical_origin": Reach(OTHER_SERVERS, schemas=("pglogical_origin",)),
    "pljava": Reach(PROGRAMS, schemas=("sqlj",)),
    "plproxy": Reach(OTHER_SERVERS),
    "plr": Reach(PROGRAMS, r"install_rcmd|reload_plr_modules|plr_\w+"),
    "plsh": Reach(PROGRAMS),
    "spock": Reach(OTHER_SERVERS, schemas=("spock",)),
}
"""Extensions that reach outside, beside all that end in `_fdw` and those of untrusted languages."""

TRUSTED = frozenset(
    ("sql", "plpgsql", "plperl", "pltcl", "pllua", "plv8", "pljs", "plcoffee", "plls", "plrust")
)
"""Languages whose functions cannot leave the database."""

_UNTRUSTED = re.compile(
    r"(?:pl|j|ltree_pl|hstore_pl|jsonb_pl|bool_pl)\w*(?:u|python\d?u?|u_)\Z|plsh|plr|java|javau"
)

_FUNCTIONS = re.compile(
    r"lo_import|lo_export|pg_read_(?:binary_)?file|pg_read_server_file\w*|pg_ls_dir|pg_stat_file|"
    r"pg_file_\w+|pg_logdir_ls|pg_reload_conf|pg_rotate_logfile\w*|pg_promote|"
    rf"{'|'.join(reach.functions for reach in EXTENSIONS.values() if reach.functions)}|postgres_fdw_\w+"
)
_SCHEMAS = {schema: reach for reach in EXTENSIONS.values() for schema in reach.schemas}

UNREACHABLE = "pgstrata_unreachable"
"""The foreign-data wrapper that takes the place of all others. It has no handler, so nothing is reached."""

_RELATIONS = frozenset(("from", "join", "into", "update", "table", "only", "truncate", "using"))
"""What stands before the name of a table."""

_OF_SUPERUSERS = (
    ("alter", "extension"),
    ("alter", "operator", "family"),
    ("checkpoint",),
    ("create", "extension"),
    ("create", "operator", "class"),
    ("create", "operator", "family"),
    ("create", "text", "search", "parser"),
    ("create", "text", "search", "template"),
)
"""Statements that only a superuser may execute and that stay within the database."""

_SUPERUSER_SETTING = re.compile(r"session_replication_role|log_\w+|lo_compat_privileges|track_\w+")


@dataclass(frozen=True)
class Treatment:
    """What becomes of a statement of a setup. text: what is executed in its place, empty for nothing; why:
    the reason for another text, empty where nothing is lost; superuser: pgstrata's superuser executes it."""

    text: str
    why: str = ""
    superuser: bool = False


@dataclass
class Reaching:
    """Names that are known to lead outside, as statements that make them are seen."""

    #: Schema and name of foreign tables, and of views that read them.
    relations: set[tuple[str, str]] = field(default_factory=set)
    #: Functions that were left out.
    functions: set[str] = field(default_factory=set)
    #: Schema and name of views and tables that were left out.
    views: set[tuple[str, str]] = field(default_factory=set)
    #: Schemas of extensions that were left out.
    schemas: set[str] = field(default_factory=set)
    #: Names of tables and views that lead nowhere: a name without its schema may be theirs.
    others: set[str] = field(default_factory=set)
    #: Functions that are in the database.
    defined: set[str] = field(default_factory=set)

    def why(self, text: str) -> str:
        """Returns the reason why a statement of a log or a script reaches outside, empty if its text does not
        show it."""
        parts = _parts(text)
        return _why_alone(parts) or _why_calls(parts, self.defined) or self._why_by_names(parts)

    def treatment(self, text: str) -> Treatment:
        """Returns the treatment of a statement of a setup; remembers the names that it makes."""
        if not _CONCERNED.match(text):
            return Treatment(text)
        parts = _parts(text)
        words = tuple(part.text.lower() for part in parts[:8] if part.kind == "word")
        if words[:2] == ("create", "server"):
            if_not_exists = "IF NOT EXISTS " if words[2:5] == ("if", "not", "exists") else ""
            name = parts[5 if if_not_exists else 2].text
            return Treatment(
                f"CREATE SERVER {if_not_exists}{name} FOREIGN DATA WRAPPER {UNREACHABLE}", LEADS_NOWHERE
            )
        if (role := _role(parts, words)) is not None:
            return role
        if why := self._why_left_out(parts):
            if why == FILES and words[:1] == ("copy",) and "from" in (part.text.lower() for part in parts):
                # Rows that are missing are no small thing: the server says that it may not read the file.
                return Treatment(text)
            self._forget(parts, words)
            return Treatment("", why)
        if needs := self._missing(parts, words):
            self._forget(parts, words)
            return Treatment("", f"needs {needs}, which is left out")
        self._remember(parts, words)
        return Treatment(text, superuser=_is_superusers(parts, words))

    def copied(self, text: str) -> Treatment:
        """Returns the treatment of rows: those of tables of an extension that is left out go with it."""
        parts = _parts(text)
        schema, name = _name_at(parts, 1)
        if schema in self.schemas:
            return Treatment("", _SCHEMAS[schema].why)
        if (schema, name) in self.views:
            return Treatment("", f"needs {name}, which is left out")
        return Treatment(text)

    def _why_left_out(self, parts: Sequence[Token]) -> str:
        why = _why_alone(parts) or _why_calls(parts, self.defined)
        if why and [part.text.lower() for part in parts[:2]] == ["create", "extension"]:
            self.schemas |= {s for s, reach in _SCHEMAS.items() if reach is EXTENSIONS.get(_extension(parts))}
        return why or _why_dependent(parts, self.schemas)

    def _why_by_names(self, parts: Sequence[Token]) -> str:
        for at in range(len(parts) - 1):
            if parts[at].text.lower() in _RELATIONS and parts[at + 1].kind in ("word", "name"):
                schema, name = _name_at(parts, at + 1)
                if (schema, name) in self.relations:
                    return OTHER_SERVERS
                if not schema and name not in self.others and any(name == n for _, n in self.relations):
                    return OTHER_SERVERS
        if any(name in self.functions for name in _called(parts)):
            return PROGRAMS
        return ""

    def _missing(self, parts: Sequence[Token], words: Sequence[str]) -> str:
        """Returns the name of something left out that a statement needs to be executed at all."""
        if words[:1] not in (("create",), ("alter",), ("comment",), ("select",), ("grant",), ("revoke",)):
            return ""
        whole = {name for name in _called(parts) if name in self.functions}
        for at in range(1, len(parts)):
            before = parts[at - 1].text.lower()
            if before in _RELATIONS or before in ("on", "view"):
                schema, name = _name_at(parts, at)
                if (schema, name) in self.views or (not schema and ("public", name) in self.views):
                    whole.add(name)
        return min(whole, default="")

    def _forget(self, parts: Sequence[Token], words: Sequence[str]) -> None:
        kind, at = _made(parts, words)
        schema, name = _name_at(parts, at) if kind else ("", "")
        if kind in ("function", "procedure", "aggregate"):
            self.functions.add(name)
        elif kind in ("view", "table", "foreign"):
            self.views.add((schema or "public", name))
            self.relations.add((schema or "public", name))

    def _remember(self, parts: Sequence[Token], words: Sequence[str]) -> None:
        kind, at = _made(parts, words)
        if kind in ("function", "procedure", "aggregate"):
            self.defined.add(_name_at(parts, at)[1])
        if kind not in ("foreign", "view", "table"):
            return
        schema, name = _name_at(parts, at)
        leads_outside = kind == "foreign" or (kind == "view" and self._why_by_names(parts[at + 1 :]))
        if leads_outside:
            self.relations.add((schema or "public", name))
        else:
            self.others.add(name)


_CONCERNED = re.compile(
    r"\s*(?:CREATE|ALTER|DROP|COMMENT|COPY|SELECT|LOAD|IMPORT|GRANT|REVOKE|SET|CHECKPOINT|--|/\*)",
    re.IGNORECASE,
)
_HARMLESS_SPACE = ("space", "comment")
_IN_A_LANGUAGE = frozenset(("function", "procedure", "language", "transform"))
_BEFORE_LANGUAGE = frozenset(("or", "replace", "trusted", "procedural"))
_EXECUTE = frozenset(("select", "with", "call", "values", "insert", "update", "delete"))


def _parts(text: str) -> list[Token]:
    return [part for part in tokens(text) if part.kind not in _HARMLESS_SPACE]


def _bare(part: Token) -> str:
    """Returns a name as the server keeps it."""
    if part.kind == "name":
        return part.text[1:-1].replace('""', '"') if part.text.startswith('"') else ""  # none of U&"…"
    return part.text.lower() if part.kind == "word" else ""


def _name_at(parts: Sequence[Token], at: int) -> tuple[str, str]:
    """Returns schema, empty if there is none, and name of the object at a place."""
    if at >= len(parts):
        return "", ""
    if at + 2 < len(parts) and parts[at + 1].text == ".":
        return _bare(parts[at]), _bare(parts[at + 2])
    return "", _bare(parts[at])


def _called(parts: Sequence[Token]) -> list[str]:
    """Returns names of functions: the words before a parenthesis, and behind the word function."""
    names = []
    for at, part in enumerate(parts):
        behind = parts[at + 1].text if at + 1 < len(parts) else ""
        before = parts[at - 1].text.lower() if at else ""
        if part.kind in ("word", "name") and (behind == "(" or before in ("function", "procedure")):
            names.append(_bare(part))
    return names


def _why_alone(parts: Sequence[Token]) -> str:
    """Returns the reason why a statement reaches outside by itself, whatever its database holds; empty if it
    does not."""
    words = [part.text.lower() for part in parts if part.kind == "word"]
    match words:
        case ["copy", *_]:
            return _why_copy(parts)
        case ["alter", "system", *_]:
            return CONFIGURATION
        case ["load", *_]:
            return LIBRARY
        case ["import", "foreign", *_] | ["create" | "alter" | "drop", "server", *_]:
            return OTHER_SERVERS
        case ["create" | "alter" | "drop", "user", "mapping", *_]:
            return OTHER_SERVERS
        case ["create" | "alter" | "drop", "subscription", *_] | ["comment", "on", "subscription", *_]:
            return OTHER_SERVERS
        case ["create" | "alter" | "drop", "foreign", "data", *_] | ["comment", "on", "foreign", "data", *_]:
            return OTHER_SERVERS
        case ["grant" | "revoke", *more] if "wrapper" in more and "foreign" in more:
            return OTHER_SERVERS
        case ["create" | "alter" | "drop", "event", "trigger", *_] | [
            "comment",
            "on",
            "event",
            "trigger",
            *_,
        ]:
            return EVENT_TRIGGER
        case ["create" | "alter", "extension", *_]:
            return _why_extension(parts)
        case ["create", "tablespace", *_]:
            return FILES
        case ["create", *more] if _kind(more) in _IN_A_LANGUAGE:
            return _why_language(parts)
    return ""


def _kind(words: Sequence[str]) -> str:
    """Returns the kind of object that is made, from the words behind CREATE: a table may be called
    language."""
    return next((word for word in words if word not in _BEFORE_LANGUAGE), "")


def _why_calls(parts: Sequence[Token], defined: Container[str]) -> str:
    """Returns the reason why a function that a statement calls reaches outside; empty if none does. defined:
    functions of the database's own."""
    if not parts or parts[0].text.lower() not in _EXECUTE:
        return ""
    for at, part in enumerate(parts[:-1]):
        name = _bare(part)
        if not name or parts[at + 1].text != "(" or name in defined:
            continue
        schema = _bare(parts[at - 2]) if at > 1 and parts[at - 1].text == "." else ""
        if schema in _SCHEMAS:
            return _SCHEMAS[schema].why
        if _FUNCTIONS.fullmatch(name):
            return _why_function(name)
    return ""


def _why_function(name: str) -> str:
    for reach in EXTENSIONS.values():
        if reach.functions and re.fullmatch(reach.functions, name):
            return reach.why
    return (
        CONFIGURATION
        if name in ("pg_reload_conf", "pg_promote")
        else (OTHER_SERVERS if name.startswith("postgres_fdw") else FILES)
    )


def _why_copy(parts: Sequence[Token]) -> str:
    depth = 0
    for at, part in enumerate(parts[:-1]):
        depth += {"(": 1, ")": -1}.get(part.text, 0)
        if not depth and part.kind == "word" and part.text.lower() in ("to", "from"):
            behind = parts[at + 1]
            if behind.kind in ("string", "dollar", "parameter"):
                return FILES
            if behind.text.lower() == "program":
                return PROGRAMS
    return ""


def _extension(parts: Sequence[Token]) -> str:
    """Returns the name in CREATE or ALTER EXTENSION."""
    rest = parts[2:]
    if [part.text.lower() for part in rest[:3]] == ["if", "not", "exists"]:
        rest = rest[3:]
    return _bare(rest[0]) if rest else ""


def _why_extension(parts: Sequence[Token]) -> str:
    name = _extension(parts)
    if name in EXTENSIONS:
        return EXTENSIONS[name].why
    if name.endswith("_fdw"):
        return OTHER_SERVERS
    return PROGRAMS if _UNTRUSTED.fullmatch(name) else ""


def why_extension(name: str) -> str:
    """Returns the reason why an extension is left out, empty for all others."""
    return _why_extension(_parts(f'CREATE EXTENSION "{name}"'))


def _why_language(parts: Sequence[Token]) -> str:
    """Returns the reason why a language, or a function or transform in it, is left out; empty for a trusted
    language."""
    for at, part in enumerate(parts[:-1]):
        if part.kind != "word" or part.text.lower() != "language":
            continue
        behind = parts[at + 1]
        name = behind.text.strip("'").lower() if behind.kind == "string" else _bare(behind)
        if name in ("c", "internal"):
            return LIBRARY
        return "" if name in TRUSTED else PROGRAMS
    return ""


def _why_dependent(parts: Sequence[Token], schemas: Container[str]) -> str:
    """Returns the reason why a statement that names a schema of a left-out extension is left out; empty for
    all others."""
    for part, behind in pairwise([*parts, Token("other", "")]):
        name = part.text.strip("'").partition(".")[0] if part.kind == "string" else _bare(part)
        if name in schemas and (behind.text == "." or (part.kind == "string" and "." in part.text)):
            return _SCHEMAS[name].why
    return ""


def _role(parts: Sequence[Token], words: Sequence[str]) -> Treatment | None:
    """Returns how a statement on roles is treated: they are made without attributes, and may be granted to
    each other; None for other statements."""
    verb, kind = (*words, "", "")[:2]
    if kind in ("role", "user", "group") and words[1:3] != ("user", "mapping"):
        if verb == "create" and len(parts) > 2:
            return Treatment(f"CREATE ROLE {parts[2].text}", superuser=True)
        if verb in ("alter", "drop"):
            return Treatment("", SETTINGS if "set" in words[2:] else ROLES)
    if words[:3] in (("comment", "on", "role"), ("security", "label", "on")):
        return Treatment("", ROLES)
    if words[:3] == ("set", "session", "authorization"):
        return Treatment("", ROLES)
    if verb == "grant" and not any(part.text.lower() == "on" for part in parts if part.kind == "word"):
        return _membership(parts)
    return None


def _membership(parts: Sequence[Token]) -> Treatment:
    """Returns the treatment of GRANT a TO b: without the role that granted it, and without rights beyond the
    database."""
    at = next((n for n, part in enumerate(parts) if part.text.lower() == "to"), len(parts))
    if at + 1 >= len(parts):
        return Treatment("", ROLES)
    granted = [part for part in parts[1:at] if part.kind in ("word", "name")]
    names = [_bare(part) for part in granted]
    if not all(names) or any(name.startswith("pg_") or name == "postgres" for name in names):
        return Treatment("", "gives a role rights beyond the database")
    given = ", ".join(part.text for part in granted)
    return Treatment(f"GRANT {given} TO {parts[at + 1].text}", superuser=True)


def _made(parts: Sequence[Token], words: Sequence[str]) -> tuple[str, int]:
    """Returns the kind of relation or function that a statement makes, and where its name stands; empty for
    other statements."""
    if words[:1] != ("create",):
        return "", 0
    for at, part in enumerate(parts[1:8], 1):
        word = part.text.lower()
        if word in ("function", "procedure", "aggregate", "view", "table"):
            kind = "foreign" if word == "table" and parts[at - 1].text.lower() == "foreign" else word
            if [p.text.lower() for p in parts[at + 1 : at + 4]] == ["if", "not", "exists"]:
                at += 3
            return kind, at + 1
        if word not in _BEFORE_KIND:
            break
    return "", 0


_BEFORE_KIND = frozenset(
    (
        "or",
        "replace",
        "temp",
        "temporary",
        "global",
        "local",
        "unlogged",
        "foreign",
        "materialized",
        "recursive",
    )
)


def _is_superusers(parts: Sequence[Token], words: Sequence[str]) -> bool:
    if any(tuple(words[: len(beginning)]) == beginning for beginning in _OF_SUPERUSERS):
        return True
    texts = [part.text.lower() for part in parts]
    if words[:1] == ("create",) and _kind(words[1:]) == "language":
        return True  # one that is trusted: all others are left out
    if words[:2] == ("create", "cast"):
        return texts[-4:] == ["without", "function"] or "without" in texts
    if words[:1] == ("set",):
        return bool(_SUPERUSER_SETTING.fullmatch((*words, "", "")[1]))
    return words[:2] == ("alter", "table") and "trigger" in texts and texts[-1] == "all"


__all__ = [
    "EXTENSIONS",
    "ROLES",
    "SETTINGS",
    "TRUSTED",
    "UNREACHABLE",
    "Reach",
    "Reaching",
    "Treatment",
    "why_extension",
]
