"""Single statements of a captured file, executed with nothing beside them: each is a captured file of its
own, which the driver replays in one session."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pgstrata.sql_tokens import tokens
from pgstrata.traffic.captured import SIMPLE, Captured, Header, Shape, Statement, Writer
from pgstrata.traffic.replay.samples import MOST_READ, PLANNED, text_with_values
from pgstrata.traffic.settings import sets_only_role
from pgstrata.workload.core.language import AloneStatement, Headline, ReplayedSessions, Role, Step
from pgstrata.workload.custom.queries import varies
from pgstrata.workload.custom.sql import mentioned

TURN_SECONDS = 0.1
"""In which the executions of one turn end, as far as is known beforehand."""

MOST_EXECUTIONS = 2000
"""Of a statement in one turn."""

MOST_SAMPLES = 200
"""Executions that are looked for in the captured file; a turn goes through them again and again."""

MOST_TEXTS, MOST_BYTES_OF_TEXTS = 50, 1 << 16
"""Executions that are looked for where only their texts are wanted, and their texts and values together."""

MOST_BYTES = 8 << 20
"""Of all executions of one statement: their texts and values."""

MOST_SETTINGS = 20
"""`SET` statements before a statement that are executed before it."""

QUERIES = frozenset(("select", "with", "values", "table"))
"""How statements begin that mostly read only; the server holds them to it where a plan is asked for."""

CHANGES = frozenset(("insert", "update", "delete", "merge"))
"""How statements begin that change rows."""

DRAWN = frozenset(("random", "random_normal", "tablesample"))
"""Words of statements that change other rows at each execution."""

TIMEOUT_SECONDS = 30
"""`statement_timeout` of an execution alone."""


@dataclass
class _Samples:
    """Executions of one statement. settings: what their sessions had set before; most: that are wanted."""

    settings: tuple[str, ...]
    most: int = MOST_SAMPLES
    most_bytes: int = MOST_BYTES
    statements: list[Statement] = field(default_factory=list)
    size: int = 0

    def add(self, statement: Statement) -> None:
        self.statements.append(statement)
        self.size += len(statement.text) + sum(len(value or "") for value in statement.parameters)

    @property
    def full(self) -> bool:
        return len(self.statements) >= self.most or self.size > self.most_bytes


def alone_statements(
    file: Path, database: str, role: str, confined: bool, wanted: Mapping[int, float], folder: Path
) -> Mapping[int, AloneStatement]:
    """Returns for each statement a step that executes it alone, or why none can.

    wanted: by number the seconds of one execution, which decide how many a turn has (one, where they are
    TIMEOUT_SECONDS); folder: where the captured files are written. Their values are those of the first
    executions in the log that went well, from sessions that had set the same. What may change rows is rolled
    back after each execution. Raises CapturedError.
    """
    with Captured(file) as captured:
        shapes = captured.header.shapes
        known = {
            number: MOST_SAMPLES if seconds < TIMEOUT_SECONDS else MOST_TEXTS
            for number, seconds in wanted.items()
            if number < len(shapes)
        }
        samples = _samples(captured, database, known)
    statements = dict.fromkeys(
        wanted, AloneStatement(None, why_not="no execution of it that went well is in the log")
    )
    for place, number in enumerate(known):
        if number not in samples:
            continue
        shape, sampled = shapes[number], samples[number]
        first = sampled.statements[0]
        words = mentioned(first.text).words
        about = AloneStatement(
            None,
            texts=_texts(sampled.statements, _query),
            changes=() if words & DRAWN else _texts(sampled.statements, _change),
            settings=sampled.settings,
            varies=varies(first.text),
        )
        if reason := _why_not(first.text):
            statements[number] = replace(about, why_not=reason)
            continue
        of_length = partial(
            _turn, folder / f"{place}.traffic", database, shape, sampled, role=role, confined=confined
        )
        statements[number] = replace(about, step=of_length(wanted[number]), of_length=of_length)
    return statements


def _texts(statements: Sequence[Statement], part: Callable[[str], str]) -> list[str]:
    """Returns the texts of a few executions with their values, each once. part: of a text that is wanted,
    empty where none is."""
    wanted = (statement._replace(text=part(statement.text)) for statement in statements[:MOST_TEXTS])
    return list(dict.fromkeys(text for statement in wanted if (text := text_with_values(statement))))


def _change(text: str) -> str:
    """Returns the text of a statement that changes rows; empty for another."""
    words = _words(text)
    return text if words and words[0] in CHANGES else ""


def _query(text: str) -> str:
    """Returns the query that a statement is, or that it declares a cursor for; empty if there is none."""
    words = _words(text)
    if words[:1] != ["declare"]:
        return text if words and words[0] in QUERIES else ""
    behind = 0
    for part in tokens(text):
        behind += len(part.text)
        if part.kind == "word" and part.text.lower() == "for":
            return _query(text[behind:].lstrip())
    return ""


def _turn(
    path: Path,
    database: str,
    shape: Shape,
    samples: _Samples,
    seconds: float,
    *,
    role: str,
    confined: bool,
) -> Step:
    """Writes the file of one turn of executions that take so many seconds, in the place of an earlier one;
    returns its step."""
    path.unlink(missing_ok=True)
    executions = max(1, min(MOST_EXECUTIONS, round(TURN_SECONDS / max(seconds, 1e-6))))
    _write(path, database, shape.text, samples, executions, rolled_back=not shape.reads)
    return _step(path, database, role, confined)


def _samples(captured: Captured, database: str, wanted: Mapping[int, int]) -> dict[int, _Samples]:
    """Returns the wanted number of executions of each wanted statement, by its number, all with the settings
    of the first."""
    databases = [captured_database.name for captured_database in captured.header.databases]
    samples: dict[int, _Samples] = {}
    missing, read = set(wanted), 0
    for entry in captured.sessions():
        if not missing or read > MOST_READ:
            break
        if databases[entry.database] != database:
            continue
        settings: tuple[str, ...] = ()
        for statement in captured.statements(entry):
            read += 1
            if statement.shape in missing and not statement.sqlstate:
                most = wanted[statement.shape]
                most_bytes = MOST_BYTES if most == MOST_SAMPLES else MOST_BYTES_OF_TEXTS
                of_shape = samples.setdefault(statement.shape, _Samples(settings, most, most_bytes))
                if of_shape.settings == settings:
                    of_shape.add(statement)
                    if of_shape.full:
                        missing.discard(statement.shape)
            if _sets(statement) and len(settings) < MOST_SETTINGS:
                settings = (*settings, statement.text)
            if not missing or read > MOST_READ:
                break
    return samples


def _words(text: str) -> list[str]:
    """Returns the first two words of a statement."""
    plain = (part.text.lower() for part in tokens(text) if part.kind not in ("space", "comment"))
    return list(itertools.islice((word for word in plain if word != "("), 2))


def _sets(statement: Statement) -> bool:
    """Returns whether a statement sets something for the rest of its session."""
    if (
        statement.sqlstate
        or statement.protocol != SIMPLE
        or statement.text[:20].lstrip()[:3].lower() != "set"
        or sets_only_role(statement.text)  # as in the replay
    ):
        return False
    words = _words(statement.text)
    return words[0] == "set" and words[-1] not in ("local", "transaction", "constraints")


def _why_not(text: str) -> str:
    """Returns why a statement cannot be executed alone; an empty text where it can."""
    parts = tokens(text)
    while parts and (parts[-1].kind in ("space", "comment") or parts[-1].text == ";"):
        parts.pop()
    if any(part.text == ";" for part in parts):
        return "it is several statements"
    words = _words(text)
    if not words or words[0] not in PLANNED:
        return "it is neither a query nor a change of rows"
    return ""


def _write(
    path: Path, database: str, shape: str, samples: _Samples, executions: int, *, rolled_back: bool
) -> None:
    """Writes one session: settings, one execution that does not count, and those that do."""
    with Writer(path) as writer:
        counted, uncounted = writer.shape(shape), writer.shape(f"{shape} -- not counted")
        around = writer.shape("-- around it")
        session = writer.begin(0, writer.database(database))

        def add(statement: Statement) -> None:
            writer.add(session, statement, common=True)

        def plain(text: str) -> None:
            add(Statement(0, None, SIMPLE, around, text))

        for text in (*samples.settings, f"SET statement_timeout = {TIMEOUT_SECONDS * 1000}"):
            plain(text)
        first = samples.statements[0]
        cycled = itertools.islice(itertools.cycle(samples.statements), executions)
        for number, statement in ((uncounted, first), *((counted, repeated) for repeated in cycled)):
            if rolled_back:
                plain("BEGIN")
            add(statement._replace(start=0, duration=None, shape=number))
            if rolled_back:
                plain("ROLLBACK")
        writer.finish(Header())


def _step(path: Path, database: str, role: str, confined: bool) -> Step:
    return Step(
        role,
        [Role(role, 1, [])],
        Headline(role, "operations", "statements/s of their time", busy=True),
        overtime=2 * TIMEOUT_SECONDS,
        replay=ReplayedSessions(str(path), None, database, 1),
        confined=confined,
    )


__all__ = ["alone_statements"]
