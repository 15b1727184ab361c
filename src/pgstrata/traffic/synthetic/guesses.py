"""Values of parameters of which nothing is known but a type."""

from __future__ import annotations

import string

from pgstrata.traffic.synthetic.draw import longest
from pgstrata.traffic.synthetic.numbering import LARGEST, base_type
from pgstrata.traffic.synthetic.origins import Origin, constant
from pgstrata.traffic.synthetic.statistics import KnownColumn
from pgstrata.traffic.synthetic.use import NotUnderstoodError, Use

OF_TYPE = {
    "boolean": "t",
    "numeric": "1",
    "real": "1",
    "double precision": "1",
    "money": "1",
    "oid": "1",
    "text": "a",
    "character varying": "a",
    "character": "a",
    "citext": "a",
    "name": "a",
    "date": "2020-01-01",
    "timestamp without time zone": "2020-01-01 00:00:00",
    "timestamp with time zone": "2020-01-01 00:00:00+00",
    "time without time zone": "12:00:00",
    "time with time zone": "12:00:00+00",
    "interval": "1 day",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json": "{}",
    "jsonb": "{}",
    "jsonpath": "$",
    "bytea": "\\x00",
    "inet": "127.0.0.1",
    "cidr": "127.0.0.0/8",
    "macaddr": "08:00:2b:01:02:03",
    "tsquery": "a",
    "tsvector": "a",
    "regclass": "pg_catalog.pg_class",
    "regconfig": "simple",
    "bit": "1",
    "bit varying": "1",
    "xml": "<a/>",
    "point": "(0,0)",
    "box": "(1,1),(0,0)",
    "circle": "<(0,0),1>",
    "polygon": "((0,0),(1,0),(1,1))",
    "lseg": "[(0,0),(1,1)]",
    "path": "[(0,0),(1,1)]",
    "line": "{1,-1,0}",
    "int4range": "[1,10)",
    "int8range": "[1,10)",
    "numrange": "[1,10)",
    "daterange": "[2020-01-01,2020-02-01)",
    "tsrange": "[2020-01-01,2020-02-01)",
    "tstzrange": "[2020-01-01 00:00:00+00,2020-02-01 00:00:00+00)",
    "ltree": "a",
    "hstore": '"a"=>"1"',
    "geometry": "POINT(0 0)",
    "geography": "POINT(0 0)",
    **dict.fromkeys(LARGEST, "1"),
}
"""One value for all calls, as a constant would be."""


def guessed(number: int, use: Use, *, is_used: bool) -> Origin:
    """Returns the value that a place, or else a type, makes likely. is_used: the statement says something of
    it. Raises NotUnderstoodError where nothing does."""
    if use.guess is not None:
        return constant(number, use.guess, f"guessed: {use.guess}")
    if use.type == "bigint" and use.kind == "guess" and is_used:
        # A lock by number: the same for all would make them wait for each other.
        return Origin(
            (number,),
            lambda dice, hide: (str(dice.randrange(1 << 20)),),
            "guessed: any number",
            guessed=True,
        )
    plain = base_type(use.type)
    if plain.endswith("[]"):
        return constant(number, "{}", "guessed: an empty array")
    if plain in OF_TYPE:
        return constant(number, OF_TYPE[plain], f"guessed, of type {plain}: {OF_TYPE[plain]}")
    if plain:
        raise NotUnderstoodError(f"what ${number} of type {plain} is compared with is not known")
    raise NotUnderstoodError(f"what ${number} is compared with is not known")


def made_up(number: int, use: Use, column: KnownColumn) -> Origin:
    """Returns values for a column of which only the type is known. Raises NotUnderstoodError."""
    type_ = base_type(column.type)
    if type_.startswith("json") and use.kind not in ("insert", "set"):
        raise NotUnderstoodError(f"which documents {column.title} holds is not known")
    why = "ANALYZE has not seen it" if not column.analyzed else "its values are not known"
    words = f"of the type of {column.title}: {why}"
    if use.kind == "any" or type_.endswith("[]"):
        return Origin((number,), lambda dice, hide: ("{}",), words, guessed=True)
    if type_ in LARGEST or type_ == "numeric":
        return Origin(
            (number,), lambda dice, hide: (hide(str(dice.randrange(1, 1001))),), words, guessed=True
        )
    if type_ in ("text", "character varying", "character"):
        length = min(10, longest(column.type) or 10)
        return Origin(
            (number,),
            lambda dice, hide: ("".join(dice.choices(string.ascii_lowercase, k=length)),),
            words,
            guessed=True,
        )
    if type_ == "bytea":
        return Origin((number,), lambda dice, hide: ("\\x" + dice.randbytes(10).hex(),), words, guessed=True)
    if column.labels:
        return Origin((number,), lambda dice, hide: (dice.choice(column.labels),), words, guessed=True)
    if type_ in OF_TYPE:
        return constant(number, OF_TYPE[type_], words)
    raise NotUnderstoodError(f"values of {column.title} (type {type_ or 'unknown'}) are not known")


__all__ = ["OF_TYPE", "guessed", "made_up"]
