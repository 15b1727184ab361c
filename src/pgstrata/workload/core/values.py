"""Values: what stands between the fixed words of a statement, drawn anew for each execution."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgstrata.driver.spec import (
    DigitsPiece,
    ExprPiece,
    FillPiece,
    FillSpec,
    NowPiece,
    PieceSpec,
    RepeatPiece,
    SplicePiece,
)
from pgstrata.driver.spec import ParamType as Type

Json = dict[str, Any]


@dataclass(frozen=True)
class Expr:
    """An expression in pgbench's language, evaluated for every execution."""

    text: str
    type: Type = "int8"

    def piece(self) -> PieceSpec:
        return ExprPiece(expr=self.text, type=self.type)


def Uniform(low: int, high: int, type: Literal["int4", "int8"] = "int4") -> Expr:
    """Returns an expression that draws a uniform integer from low to high, both included."""
    return Expr(f"random({low}, {high})", type)


def Var(name: str, type: Type = "int4") -> Expr:
    """Returns an expression with the value of a variable."""
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

    def piece(self) -> PieceSpec:
        text = f":{self.expr}" if re.fullmatch(r"[A-Za-z_]\w*", self.expr) else self.expr
        return SplicePiece(text=text, from_=self.low, to=self.high)


@dataclass(frozen=True)
class Digits:
    """Text in which every # is a random digit."""

    pattern: str
    type: Type = "text"

    def piece(self) -> PieceSpec:
        return DigitsPiece(digits=self.pattern, type=self.type)


@dataclass(frozen=True)
class Fill:
    """Text of uniform length [low, high]: letters `a`, then int(length × random) base64 characters."""

    low: int
    high: int
    random: float

    def piece(self) -> PieceSpec:
        return FillPiece(fill=FillSpec(min=self.low, max=self.high, random=self.random))


@dataclass(frozen=True)
class Now:
    """The client's local time to the second; one value per statement."""

    def piece(self) -> PieceSpec:
        return NowPiece(now="second")


class Repeat:
    """A template repeated n times with its values drawn anew: IN lists, multi-row VALUES."""

    def __init__(self, n: int, template: str, separator: str = ",", **values: Value) -> None:
        self.n = n
        self.separator = separator
        self.pieces = parse_template(template, values)

    def piece(self) -> PieceSpec:
        return RepeatPiece(repeat=self.n, of=self.pieces, separator=self.separator)


Value = Expr | Pick | Digits | Fill | Now | Repeat

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


def parse_template(template: str, values: Mapping[str, Value]) -> list[PieceSpec]:
    """Cuts a template at its {names} into the pieces of the spec.

    Raises ValueError when the template names a value that is not given, or the other way round.
    """
    pieces: list[PieceSpec] = []
    end = 0
    used: set[str] = set()
    for match in _FIELD.finditer(template):
        name = match.group(1)
        if name not in values:
            raise ValueError(f"no value for {{{name}}} in {template!r}")
        if match.start() > end:
            pieces.append(template[end : match.start()])
        pieces.append(values[name].piece())
        used.add(name)
        end = match.end()
    if end < len(template):
        pieces.append(template[end:])
    if unused := set(values) - used:
        raise ValueError(f"{', '.join(sorted(unused))} not used in {template!r}")
    return pieces
