"""What a server can be asked for: found out from its programs and its catalogs, never from its number.

A development tree carries the number of the next version months before it has that version's features, so
the number proves nothing. `Programs` asks the programs of a build (`initdb --help`, `postgres -C`) and the
files beside them from which initdb makes the catalogs, `Catalog` asks a server that runs. Each question is
asked once: of programs for as long as their files are the same, of catalogs once per session. An answer
takes about 10 ms, so none is stored on disk, where it could grow old.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pgstrata.errors import ServerError, server_said
from pgstrata.server.system.account import server_account
from pgstrata.server.system.isolation import probe
from pgstrata.sql_text import literal

if TYPE_CHECKING:
    import psycopg

_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
# postgres.bki: `create pg_class 1259 bootstrap … ( oid = oid , relname = name , … )`, and the rows of a table
# with their number before them or as the first value.
_TABLE = re.compile(r"^create(?: bootstrap)? (pg_\w+)[^(]*\((.*?)^ \)", re.M | re.S)
_COLUMN = re.compile(r"^ (\w+) = ", re.M)
_FUNCTION = re.compile(r"^insert (?:OID = \d+ )?\( (?:\d+ )?(\w+) ", re.M)
_MOST_BYTES = 16 << 20
"""Of a file beside the programs that is read; postgres.bki has 1 MB."""
_COMPLAINT_LINES = 2_000
_UNKNOWN = "pgstrata_asks_for_unknown_names"
"""A setting that no server has: with it in the file a server says which names it does not know, and stops
before it looks at any value."""


Kind = Literal["relation", "column", "function", "setting"]


@dataclass(frozen=True)
class Question:
    """Whether the catalogs of a server hold something: a relation, column or function of pg_catalog, or a
    setting of pg_settings."""

    kind: Kind
    words: tuple[str, ...]
    """Names: of a column its relation's first, of a function its arguments' types last, where they matter."""


def relation(name: str) -> Question:
    """Asks for a table or view of pg_catalog."""
    return Question("relation", (name,))


def column(of: str, name: str) -> Question:
    """Asks for a column of a table or view of pg_catalog."""
    return Question("column", (of, name))


def function(name: str, arguments: str | None = None) -> Question:
    """Asks for a function of pg_catalog. arguments: their types, such as `text, text`; None for any."""
    return Question("function", (name,) if arguments is None else (name, arguments))


def setting(name: str) -> Question:
    """Asks for a setting that pg_settings shows."""
    return Question("setting", (name,))


class Programs:
    """What the programs in one folder can do. Made by `programs_of`."""

    def __init__(self, bin_dir: Path) -> None:
        self.bin_dir = bin_dir
        self._lacked: dict[str, bool] = {}

    # --- initdb -----------------------------------------------------------------------------------

    def initdb_takes(self, option: str) -> bool:
        """Returns whether `initdb --help` lists an option, such as `--no-data-checksums` or `-N`."""
        return option in self._initdb_options

    @cached_property
    def _initdb_options(self) -> frozenset[str]:
        return frozenset(_OPTION.findall(self._help("initdb")))

    # --- settings ---------------------------------------------------------------------------------

    def unknown_settings(self, names: Collection[str]) -> frozenset[str] | None:
        """Returns those of `names` that the server does not know; None where it cannot be asked."""
        if not self.checks_settings:
            return None
        if new := sorted(set(names) - set(self._lacked)):
            text = "".join(f"{name} = 1\n" for name in [*new, _UNKNOWN])
            unknown = {new[line - 1] for line, _ in self._complaints_of_lines(text) if 0 < line <= len(new)}
            self._lacked.update((name, name in unknown) for name in new)
        return frozenset(name for name in names if self._lacked[name])

    @cached_property
    def listed_settings(self) -> frozenset[str]:
        """Settings that `postgres --describe-config` lists, in lower case: neither old names of others, which
        servers take, too, nor those of developers."""
        answer = self._run("postgres", "--describe-config")
        return frozenset(line.partition("\t")[0].lower() for line in answer.stdout.splitlines())

    def complaints(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Returns the server's words on each setting it does not take with its value, by name.

        Nothing is started: the server reads the settings, as at a start, and stops. Libraries are not loaded
        and files are not opened. Empty where the server cannot be asked.
        """
        by_name: dict[str, str] = {}
        if not self.checks_settings:
            return by_name
        # A start ends at the first bad value: each answer names one setting, which the next does without.
        while left := {name: value for name, value in settings.items() if name not in by_name}:
            text = "".join(f"{name} = {_quoted(value)}\n" for name, value in left.items())
            names = list(left)
            complaints = self._complaints_of_lines(text)
            new = {
                names[line - 1]: words for line, words in complaints if 0 < line <= len(names)
            } or _complaint_by_name(names, complaints)
            if not new:
                break
            by_name.update(new)
        return by_name

    def _complaints_of_lines(self, text: str) -> list[tuple[int, str]]:
        """Returns the server's complaints about the text of a configuration file: line (0 if unknown) and
        words."""
        folder = Path(tempfile.mkdtemp(prefix="pgstrata-ask-"))
        try:
            (folder / "postgresql.conf").write_text(text)
            if (account := server_account()) is not None:
                os.chown(folder, account.uid, account.gid)
                os.chown(folder / "postgresql.conf", account.uid, account.gid)
            answer = self._run("postgres", "-D", str(folder), "-C", "port")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if answer.returncode == 0:
            return []
        complaints = []
        for line in answer.stderr.splitlines()[:_COMPLAINT_LINES]:
            words = re.search(r"(?:LOG|WARNING|ERROR|FATAL):\s+(.*)", line)
            if words is None or "contains errors" in line or "skipping missing" in line:
                continue
            at = re.search(r"""in file ".*" line (\d+)""", words[1])
            complaints.append((int(at[1]) if at else 0, server_said(words[1].partition(" in file ")[0], 300)))
        return complaints

    @cached_property
    def checks_settings(self) -> bool:
        """True if the server can be asked about settings (from 9.2 on)."""
        return "-C" in self._postgres_options

    @cached_property
    def postgres_serves(self) -> bool:
        """True if `postgres` is the server; before 8.2 that was `postmaster`, and `postgres` one backend."""
        return "--single" in self._postgres_options

    @cached_property
    def _postgres_options(self) -> frozenset[str]:
        return frozenset(_OPTION.findall(self._help("postgres")))

    # --- catalogs ---------------------------------------------------------------------------------

    def has(self, question: Question) -> bool | None:
        """Returns whether a cluster made by this initdb has a table, one of its columns, or a function of C.

        None where postgres.bki, from which initdb makes the catalogs, is not there. Views are not looked for.
        """
        if self._catalogs is None or len(question.words) > (2 if question.kind == "column" else 1):
            return None
        tables, functions = self._catalogs
        name = question.words[0]
        match question.kind:
            case "relation":
                return name in tables
            case "column":
                return question.words[1] in tables.get(name, ())
            case "function":
                return name in functions
        return None

    @cached_property
    def _catalogs(self) -> tuple[Mapping[str, frozenset[str]], frozenset[str]] | None:
        """The tables with their columns, and the functions; None where there is no postgres.bki."""
        if (file := self._shared("postgres.bki")) is None:
            return None
        text = _beginning(file)
        tables = {match[1]: frozenset(_COLUMN.findall(match[2])) for match in _TABLE.finditer(text)}
        rows = re.search(r"^(?:create(?: bootstrap)?|open) pg_proc\b.*?^close pg_proc", text, re.M | re.S)
        return tables, frozenset(_FUNCTION.findall(rows[0]) if rows else ())

    @cached_property
    def sample_config(self) -> str:
        """The text of postgresql.conf.sample, which shows how values are written; empty if missing."""
        file = self._shared("postgresql.conf.sample")
        return "" if file is None else _beginning(file)

    def _shared(self, name: str) -> Path | None:
        """Returns the path of a file that initdb reads; None if it is not installed."""
        folders = [self.bin_dir.parent / "share" / folder for folder in ("postgresql", "pgsql", "")]
        if (self.bin_dir / "pg_config").is_file():  # packages keep their files elsewhere
            answer = self._run("pg_config", "--sharedir")
            if answer.returncode == 0 and answer.stdout.strip():
                folders.insert(0, Path(answer.stdout.strip()))
        return next((folder / name for folder in folders if (folder / name).is_file()), None)

    # --- what else ----------------------------------------------------------------------------------

    @cached_property
    def reports_state(self) -> bool:
        """True if the server writes its state (starting, ready) into postmaster.pid."""
        # pidfile.h pads each state to eight letters, which no other text of the program is.
        return all(self._contains(state) for state in (b"\0ready   \0", b"\0standby \0"))

    def has_library(self, name: str, *, below: str = "") -> bool | None:
        """Returns whether a module can be loaded by its plain name; None where its folder is not known.

        below: the folder within that of the modules, such as `plugins`.
        """
        if not self._module_folders:
            return None
        file = name if name.endswith(".so") else f"{name}.so"
        return any((folder / below / file).is_file() for folder in self._module_folders)

    @cached_property
    def _module_folders(self) -> tuple[Path, ...]:
        root = self.bin_dir.parent
        folders = [
            root / lib / subfolder for lib in ("lib", "lib64") for subfolder in ("postgresql", "pgsql", "")
        ]
        if (self.bin_dir / "pg_config").is_file():  # packages keep their files elsewhere
            answer = self._run("pg_config", "--pkglibdir")
            if answer.returncode == 0 and answer.stdout.strip():
                folders.insert(0, Path(answer.stdout.strip()))
        # The module that every server has tells the folder.
        return tuple(folder for folder in folders if (folder / "plpgsql.so").is_file())

    def _contains(self, text: bytes) -> bool:
        try:
            with (
                (self.bin_dir / "postgres").open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                return content.find(text) >= 0
        except (OSError, ValueError):
            return False

    def _help(self, program: str) -> str:
        answer = self._run(program, "--help")
        if answer.returncode != 0:
            raise ServerError(
                f"{self.bin_dir / program} does not run: {server_said(answer.stderr or answer.stdout, 300)}"
            )
        return answer.stdout

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        try:
            return probe([self.bin_dir / program, *arguments])
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerError(f"{self.bin_dir / program} does not run: {error}") from error


def _beginning(file: Path) -> str:
    with file.open("rb") as content:
        return content.read(_MOST_BYTES).decode(errors="replace")


def _complaint_by_name(names: Sequence[str], complaints: Sequence[tuple[int, str]]) -> dict[str, str]:
    """Returns the first complaint by the name of its setting: a complaint about a value comes without its
    line, but its sentence holds the name."""
    for _, words in complaints:
        for named in re.findall(r'parameter "([^"]+)"', words):
            for name in names:
                if name.lower() == named.lower():
                    return {name: words}
    return {}


def programs_of(bin_dir: Path | None) -> Programs | None:
    """Returns what the programs in a folder can do; None where no server is there, or not yet."""
    # A server that is not fetched yet has the empty path: nothing in the working folder is executed for it.
    if bin_dir is None or not bin_dir.is_absolute():
        return None
    try:
        identity = tuple(_identity(bin_dir / program) for program in ("postgres", "initdb"))
    except OSError:
        return None
    return _programs(bin_dir, identity)


@lru_cache(maxsize=256)
def _programs(bin_dir: Path, identity: object) -> Programs:
    return Programs(bin_dir)


def _identity(program: Path) -> tuple[int, int, int, int]:
    """Returns the facts of a program's file that change when another file takes its place."""
    about = program.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


_ASKED: Mapping[tuple[Kind, int], str] = {
    ("relation", 1): "SELECT 1 FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'pg_catalog' AND c.relname = %s",
    ("column", 2): "SELECT 1 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'pg_catalog' AND c.relname = %s AND a.attname = %s AND a.attnum > 0",
    ("function", 1): "SELECT 1 FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = 'pg_catalog' AND p.proname = %s",
    ("function", 2): "SELECT 1 FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = 'pg_catalog' AND p.proname = %s"
    " AND pg_catalog.oidvectortypes(p.proargtypes) = %s",
    ("setting", 1): "SELECT 1 FROM pg_catalog.pg_settings WHERE name = %s",
}


def query_of(question: Question) -> str:
    """Returns the query that gives a row where a server has it, for a script that asks by itself."""
    return _ASKED[question.kind, len(question.words)] % tuple(map(literal, question.words))


class Catalog:
    """What a running server has in its catalogs. Made by `catalog_of`. Its questions raise psycopg.Error."""

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self._session = weakref.ref(session)
        self._answers: dict[Question, bool] = {}
        self._accepted: dict[str, bool] = {}

    def has(self, question: Question) -> bool:
        """Returns whether the server's catalogs hold something."""
        self.learn((question,))
        return self._answers[question]

    def learn(self, questions: Iterable[Question]) -> None:
        """Asks several questions by one statement, so that `has` knows the answers later."""
        new = [question for question in dict.fromkeys(questions) if question not in self._answers]
        if not new:
            return
        parts = [f"EXISTS ({_ASKED[question.kind, len(question.words)]})" for question in new]
        words = [word for question in new for word in question.words]
        row = self._open().execute(f"SELECT {', '.join(parts)}".encode(), words, prepare=False).fetchone()
        assert row is not None
        self._answers.update(zip(new, map(bool, row), strict=True))

    def accepts(self, statement: str) -> bool:
        """Returns whether the server understands a statement that changes nothing, or one that cannot run
        within a transaction, such as VACUUM.

        It is sent within a transaction that is rolled back. A server that understands VACUUM refuses it
        because of the transaction (SQLSTATE 25001), one that does not refuses it because of the syntax.
        """
        import psycopg

        if statement not in self._accepted:
            session = self._open()
            try:
                with session.transaction(force_rollback=True):
                    session.execute(statement.encode(), prepare=False)
                self._accepted[statement] = True
            except psycopg.errors.ActiveSqlTransaction:
                self._accepted[statement] = True
            except psycopg.DatabaseError as error:
                if session.broken or error.sqlstate is None:
                    raise
                self._accepted[statement] = False
        return self._accepted[statement]

    def _open(self) -> psycopg.Connection[Any]:
        session = self._session()
        assert session is not None
        return session


_catalogs: weakref.WeakKeyDictionary[psycopg.Connection[Any], Catalog] = weakref.WeakKeyDictionary()


def catalog_of(session: psycopg.Connection[Any]) -> Catalog:
    """Returns what the server of a session has in its catalogs."""
    if session not in _catalogs:
        _catalogs[session] = Catalog(session)
    return _catalogs[session]


__all__ = [
    "Catalog",
    "Programs",
    "Question",
    "catalog_of",
    "column",
    "function",
    "programs_of",
    "query_of",
    "relation",
    "setting",
]
