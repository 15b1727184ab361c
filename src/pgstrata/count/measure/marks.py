"""A step as it is counted: one connection for each role, a set number of operations, and marks around them.

A mark is a statement that calls a function of the server which no benchmark calls. Callgrind closes a part
where that function is entered (`--dump-before`), so between two marks lie exactly the operations between them
and the rest of one mark. Marks right behind each other say what that rest costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from pgstrata.driver.spec import LockstepSpec, SqlSpec
from pgstrata.workload.core.language import If, Op, PgbenchScript, Role, Script, Set, Sql, Step

MARK = "pg_backend_pid"
"""The function; in C it has the same name, in every version since 8.0, and is exported from the binary."""

AT_BEGIN = 3
"""Marks before the counted operations: the pieces between them are what a mark itself costs."""

PARTS = AT_BEGIN + 1
"""Pieces that callgrind writes of a backend: before the marks, between them, the operations."""

_VARIABLE = "pgstrata_done"
_STATEMENT = f"SELECT {MARK}()"


@dataclass(frozen=True)
class Length:
    """Operations of each role: `warm` ones that are not counted, then `counted` ones."""

    warm: int
    counted: int

    @property
    def whole(self) -> int:
        return self.warm + self.counted


@dataclass(frozen=True)
class CountableStep:
    """A step made ready to be counted. lengths: by role; left: what of the step is left out, as a
    sentence."""

    step: Step
    lengths: dict[str, Length]
    left: str = ""


class NotCountedError(Exception):
    """The step cannot be counted; the message says why."""


def counted(step: Step, wanted: Length, *, marks: bool = True) -> CountableStep:
    """Returns the step with one client in each role, no rates and no end by time.

    wanted: operations of roles that have no number of their own. Of roles with one (a load) not more are
    counted, and all are executed. marks: where the engine needs them. Raises NotCountedError.
    """
    roles, lengths, left = [], {}, []
    for role in step.roles:
        if reason := _unfit(role):
            if role.name == step.headline.role:
                raise NotCountedError(reason)
            left.append(f"role {role.name} is left out: {reason}")
            continue
        length = _length(role, wanted)
        lengths[role.name] = length
        roles.append(_role(role, length, marks))
    # In turns, so that each finds what the others did before it, and the same at each start.
    turns = [LockstepSpec(roles=[role.name for role in roles], ahead=0)] if len(roles) > 1 else []
    countable = replace(step, roles=roles, lockstep=turns, seconds=None, warmup=0.0, digest=None)
    return CountableStep(countable, lengths, "; ".join(left))


def _unfit(role: Role) -> str:
    if role.reconnect:
        return "each operation has a connection of its own, and a count needs one backend"
    if role.clients > 1 and role.operations == 1:
        return "it is the work of several connections at once"
    if any(_sleeps(script) for script in role.scripts):
        return "it waits for the clock"
    return ""


def _sleeps(script: Script | PgbenchScript) -> bool:
    from pgstrata.workload.core.language import Sleep

    return isinstance(script, Script) and any(isinstance(op, Sleep) for op in script.ops)


def _length(role: Role, wanted: Length) -> Length:
    if role.operations is None:
        return wanted
    if role.operations == 1:
        return Length(0, 1)
    warm = min(wanted.warm, role.operations // 4)
    return Length(warm, min(wanted.counted, role.operations - warm))


def _role(role: Role, length: Length, marks: bool) -> Role:
    # A statement that takes fifty times as long would be ended by a limit that is meant for one that hangs.
    start: list[Op] = [*role.start, Sql("SET statement_timeout = 0", counted=False)]
    scripts: Sequence[Script | PgbenchScript] = role.scripts
    variables = dict(role.variables)
    if marks:
        scripts = [_marked(script, length) for script in role.scripts]
        variables[_VARIABLE] = 0
    return replace(
        role,
        clients=1,
        scripts=scripts,
        rate=None,
        target_rows=None,
        latency_limit_seconds=None,
        operations=length.whole if role.operations is None else role.operations,
        start=start,
        variables=variables,
    )


def _marked(script: Script | PgbenchScript, length: Length) -> Script | PgbenchScript:
    if isinstance(script, PgbenchScript):
        return replace(script, text=_marked_text(script.text, length))
    mark = Sql(_STATEMENT, name="mark", mode="simple", counted=False)
    after: list[Op] = [
        Set(_VARIABLE, f":{_VARIABLE} + 1"),
        If(
            (f":{_VARIABLE} = {length.warm}", [mark] * AT_BEGIN),
            (f":{_VARIABLE} = {length.whole}", [mark]),
        ),
    ]
    first: list[Op] = [] if length.warm else [If((f":{_VARIABLE} = 0", [mark] * AT_BEGIN))]
    return Script(
        *script.ops, *after, before=[*script.before, *first], weight=script.weight, name=script.name
    )


def _marked_text(text: str, length: Length) -> str:
    begin = f"{_STATEMENT};\n" * AT_BEGIN
    return (
        f"{text.rstrip()}\n"
        f"\\set {_VARIABLE} :{_VARIABLE} + 1\n"
        f"\\if :{_VARIABLE} = {length.warm}\n{begin}"
        f"\\elif :{_VARIABLE} = {length.whole}\n{_STATEMENT};\n\\endif\n"
    )


def apart(step: Step) -> list[Step]:
    """Splits a step whose one transaction is a list of recorded statements into one step for each statement;
    any other step is returned alone.

    What runs one after the other there is told apart here: each query has instructions of its own.
    """
    role = step.roles[0]
    script = role.scripts[0] if role.scripts else None
    if not (step.apart and len(step.roles) == 1 and role.operations == 1 and isinstance(script, Script)):
        return [step]
    if role.clients > 1:
        return [step]
    ops: dict[str, Any] = {}
    for op in script.ops:
        if isinstance(op, Sql):
            ops.setdefault(op.name, op)
    return [
        replace(
            step,
            name=f"{step.name}.{name}",
            roles=[replace(role, operations=None, scripts=[Script(_plain(op))])],
        )
        for name, op in ops.items()
    ]


def _plain(op: Sql) -> Sql:
    """Returns the statement without an event for each execution; a statement that fails ends the count."""
    spec = op.op()
    assert isinstance(spec, SqlSpec)
    sql = Sql("", name=op.name)
    sql._op = structs.replace(spec, record=False, on_error="stop")
    return sql
