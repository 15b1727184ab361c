"""Values: what stands between the fixed words of a statement, drawn anew for each execution."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]
Type = Literal["int4", "int8", "varchar", "text"]
"""As it is declared where a role declares types; `text` never is."""


@dataclass(frozen=True)
class Expr:
    """An expression in pgbench's language, evaluated for every execution."""

    text: str
    type: Type = "int8"

    def part(self) -> Json:
        return {"expr": self.text, "type": self.type}


def Uniform(low: int, high: int, type: Literal["int4", "int8"] = "int4") -> Expr:
    """A uniform integer from low to high, both included."""
    return Expr(f"random({low}, {high})", type)


def Var(name: str, type: Type = "int4") -> Expr:
    """The value of a variable."""
    return Expr(f":{name}", type)


@dataclass(frozen=True)
class Pick:
    """Splices an integer expression into the text of a statement, for names of tables.

    One statement is prepared for each value from `low` to `high`. `expr` is the name of a
    variable or an expression.
    """

    expr: str
    low: int
    high: int

    def part(self) -> Json:
        text = f":{self.expr}" if re.fullmatch(r"[A-Za-z_]\w*", self.expr) else self.expr
        return {"text": text, "from": self.low, "to": self.high}


@dataclass(frozen=True)
class Digits:
    """Text in which every # is a random digit."""

    pattern: str
    type: Type = "text"

    def part(self) -> Json:
        return {"digits": self.pattern, "type": self.type}


@dataclass(frozen=True)
class Fill:
    """Text of uniform length [low, high]: letters `a`, then int(length × random) base64 characters."""

    low: int
    high: int
    random: float

    def part(self) -> Json:
        return {"fill": {"min": self.low, "max": self.high, "random": self.random}}


@dataclass(frozen=True)
class Now:
    """The client's local time to the second; one value per statement."""

    def part(self) -> Json:
        return {"now": "second"}


class Repeat:
    """A template repeated n times with its values drawn anew: IN lists, multi-row VALUES."""

    def __init__(self, n: int, template: str, separator: str = ",", **values: Value) -> None:
        self.n = n
        self.separator = separator
        self.parts = parse_template(template, values)

    def part(self) -> Json:
        return {"repeat": self.n, "of": self.parts, "separator": self.separator}


Value = Expr | Pick | Digits | Fill | Now | Repeat

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


def parse_template(template: str, values: Mapping[str, Value]) -> list[str | Json]:
    """Cuts a template at its {names} into the parts of the spec.

    Raises ValueError when the template names a value that is not given, or the other way round.
    """
    parts: list[str | Json] = []
    end = 0
    used: set[str] = set()
    for match in _FIELD.finditer(template):
        name = match.group(1)
        if name not in values:
            raise ValueError(f"no value for {{{name}}} in {template!r}")
        if match.start() > end:
            parts.append(template[end : match.start()])
        parts.append(values[name].part())
        used.add(name)
        end = match.end()
    if end < len(template):
        parts.append(template[end:])
    if unused := set(values) - used:
        raise ValueError(f"{', '.join(sorted(unused))} not used in {template!r}")
    return parts
