"""What each literal and parameter of a statement is for: a value, or something that says what is done to
values.

Found by the pieces that stand around it, without a parser: a log has statements of all versions, and some
that are none. What is not recognised is a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from pgstrata.sql_tokens import Token
from pgstrata.traffic.settings import assignments, data_places


class Purpose(Enum):
    """VALUE: data. PATTERN: a regular expression, whose letters are data. SETTING: says how something is
    computed, how many rows, or by which name: `LIMIT 10`, `date_trunc('day', …)`, `a -> 'key'`, `INTERVAL '1
    day'`. PLACE: a column by its number or a modifier of a type, which no parameter could stand for:
    `ORDER BY 1`, `varchar(20)`."""

    VALUE = auto()
    PATTERN = auto()
    SETTING = auto()
    PLACE = auto()


_LITERALS = frozenset(("string", "dollar", "number", "parameter"))

_UTILITY = frozenset(
    (
        *("set", "reset", "show", "begin", "start", "commit", "end", "rollback", "abort", "savepoint"),
        *("release", "listen", "vacuum", "analyze", "fetch", "move", "do", "lock", "discard"),
    )
)
"""First words of statements that have no data in them."""

_SCHEMA = frozenset(
    ("create", "alter", "drop", "grant", "revoke", "import", "security", "reindex", "cluster")
)
"""Of those whose constants are the schema's, but for the query behind their AS."""

_QUERY = frozenset(("select", "with", "values", "table"))

_TYPES = frozenset(
    (
        *("varchar", "char", "character", "varying", "nchar", "bpchar", "numeric", "decimal", "dec", "bit"),
        *("varbit", "timestamp", "time", "timestamptz", "timetz", "interval", "second", "float"),
        *("vector", "halfvec", "sparsevec", "geometry", "geography"),
    )
)
"""Types with modifiers."""

_KEPT_TYPES = frozenset(
    (
        *("interval", "jsonpath", "bit", "varbit", "bool", "boolean"),
        *(
            f"reg{of}"
            for of in [
                "class",
                "proc",
                "procedure",
                "oper",
                "operator",
                "type",
                "role",
                "namespace",
                "config",
            ]
        ),
        *("regdictionary", "regcollation"),
    )
)
"""Types whose values are names, or could not be other ones of the same length."""

_ALL = frozenset(range(1, 100))
_SETTINGS: dict[str, frozenset[int]] = {
    **dict.fromkeys(("date_part", "nextval", "currval", "timezone", "format"), frozenset((1,))),
    **dict.fromkeys(("pg_notify", "gen_salt", "xpath", "xmlexists", "ntile"), frozenset((1,))),
    **dict.fromkeys(("to_char", "to_date", "to_timestamp", "to_number", "encode"), frozenset((2,))),
    **dict.fromkeys(("decode", "digest", "convert_from", "convert_to", "round", "trunc"), frozenset((2,))),
    **dict.fromkeys(("lag", "lead", "nth_value", "jsonb_set", "jsonb_insert"), frozenset((2,))),
    **dict.fromkeys(("regexp_match", "regexp_matches", "regexp_split_to_array"), frozenset((3,))),
    **dict.fromkeys(("regexp_split_to_table", "hmac"), frozenset((3,))),
    **dict.fromkeys(("regexp_replace", "regexp_instr", "regexp_substr"), frozenset((4, 5, 6, 7))),
    **dict.fromkeys(("regexp_count",), frozenset((3, 4))),
    **dict.fromkeys(("date_trunc",), frozenset((1, 3))),
    **dict.fromkeys(("date_bin",), frozenset((1,))),
    **dict.fromkeys(("convert",), frozenset((2, 3))),
    **dict.fromkeys(("make_interval", "set_config", "current_setting", "setval", "setseed"), _ALL),
    **dict.fromkeys(("system", "bernoulli", "repeatable", "pg_get_serial_sequence"), _ALL),
    **dict.fromkeys(("json_extract_path", "jsonb_extract_path"), _ALL - {1}),
    **dict.fromkeys(("json_extract_path_text", "jsonb_extract_path_text"), _ALL - {1}),
    **{
        f"jsonb_path_{what}": frozenset((2,))
        for what in ["exists", "match", "query", "query_array", "query_first"]
    },
}
"""Arguments of functions that say how they work, by their number."""

_COUNTING = frozenset(
    (
        *("generate_series", "substr", "substring", "left", "right", "lpad", "rpad", "repeat", "overlay"),
        *("split_part", "width_bucket", "power", "mod", "exp", "chr", "random", "pg_sleep"),
        *("percentile_cont", "percentile_disc"),
    )
)
"""Functions whose numbers are counts, places and shares."""

_CONFIGURED = frozenset(
    (
        "to_tsvector",
        "to_tsquery",
        "plainto_tsquery",
        "phraseto_tsquery",
        "websearch_to_tsquery",
        "ts_headline",
    )
)
"""Of several arguments the first is the name of a configuration."""

_PATTERN_ARGUMENT = frozenset(name for name in _SETTINGS if name.startswith("regexp_"))

_OPERATOR = frozenset("+-*/<>=~!@#%^&|`?")
_KEYED = frozenset(("->", "->>", "#>", "#>>", "#-", "?", "?|", "?&", "@?"))
_MATCHED = frozenset(("~", "~*", "!~", "!~*"))
_BEHIND_PLACE = frozenset(
    (
        *(",", ")", ";", "asc", "desc", "nulls", "using", "having", "order", "window", "limit", "offset"),
        *("fetch", "for", "union", "intersect", "except", "rows", "range", "groups", ""),
    )
)
_ENDS_BY = _BEHIND_PLACE - {",", ")", "asc", "desc", "nulls", "using"}
_GROUPING = frozenset(("sets", "rollup", "cube", "by", ",", "("))

_COMMENT = r"/\*|--"
_PERHAPS_PLACE = re.compile(
    rf"\bby\b|\bdistinct\s*(?:\bon\b|{_COMMENT})|::[\s\w.\"]*(?:\(|{_COMMENT})"
    rf"|\b(?:{'|'.join(_TYPES)})\"?\s*(?:\(|{_COMMENT})",
    re.IGNORECASE,
)


def may_have_places(text: str) -> bool:
    """Returns whether a statement is worth looking through for places: most are not."""
    if "(" not in text and "by" not in text.lower():
        return False  # the search takes ten times as long
    return _PERHAPS_PLACE.search(text) is not None


@dataclass
class _Frame:
    """What stands within one pair of brackets. opened: the word in front of it, a comma or a bracket;
    argument: the number of the one that is read; places: numbers by themselves are columns; modifiers: of a
    type; subscript: of an array."""

    opened: str = ""
    argument: int = 1
    places: bool = False
    modifiers: bool = False
    subscript: bool = False


def purposes(pieces: Sequence[Token]) -> Iterator[tuple[int, Purpose]]:
    """Yields each literal and parameter of a statement: its place among the pieces, and its purpose."""
    yield from _Reading(pieces).purposes()


class _Reading:
    def __init__(self, pieces: Sequence[Token]) -> None:
        self._pieces = pieces
        self._at = [n for n, piece in enumerate(pieces) if piece.kind not in ("space", "comment")]
        self._words = [
            pieces[n].text.lower() if pieces[n].kind in ("word", "other") else "" for n in self._at
        ]
        self._frames = [_Frame()]
        self._command = ""
        self._in_query = False
        # What an application keeps in a setting of its own is data: SET app.user = 'x'.
        self._data = (
            data_places(pieces, assignments(pieces))
            if "set" in self._words or "set_config" in self._words
            else frozenset[int]()
        )

    def purposes(self) -> Iterator[tuple[int, Purpose]]:
        for number, place in enumerate(self._at):
            kind, word = self._pieces[place].kind, self._words[number]
            if place in self._data:
                yield place, Purpose.VALUE
            elif kind in _LITERALS:
                yield place, self._purpose(number, kind)
            elif kind == "word":
                self._takes(number, word)
            elif kind == "other":
                self._bracket(number, word)

    # --- where one is -----------------------------------------------------------------------------

    def _takes(self, number: int, word: str) -> None:
        frame = self._frames[-1]
        if not self._command:
            self._command = word
        elif word in _QUERY and (self._before(number) in ("as", "(") or self._command == "copy"):
            self._in_query = True
        if word == "by" and self._before(number) in ("order", "group"):
            frame.places = True
        elif word in _ENDS_BY:
            frame.places = False

    def _bracket(self, number: int, letter: str) -> None:
        frame = self._frames[-1]
        before = self._before(number)
        if letter == "(":
            self._frames.append(
                _Frame(
                    before,
                    places=(frame.places and before in _GROUPING)
                    or (before == "on" and self._before(number - 1) == "distinct"),
                    modifiers=before in _TYPES or self._is_cast(number - 1),
                )
            )
        elif letter == "[":
            array = before in ("array", "[") or (before == "," and not frame.subscript)
            self._frames.append(_Frame("[", subscript=not array))
        elif letter in ")]":
            if len(self._frames) > 1:
                self._frames.pop()
        elif letter == ",":
            frame.argument += 1
        elif letter == ";":
            self._frames, self._command, self._in_query = [_Frame()], "", False

    def _before(self, number: int) -> str:
        return self._words[number - 1] if number > 0 else ""

    def _behind(self, number: int, distance: int = 1) -> str:
        return self._words[number + distance] if number + distance < len(self._words) else ""

    def _is_cast(self, number: int) -> bool:
        """Returns whether this word is the name of a type behind `::`."""
        if self._pieces[self._at[number]].kind in _LITERALS:
            return False
        while number > 1 and self._words[number - 1] == ".":  # of a schema
            number -= 2
        return number > 1 and self._words[number - 1] == self._words[number - 2] == ":"

    # --- one literal --------------------------------------------------------------------------------

    def _purpose(self, number: int, kind: str) -> Purpose:
        frame, before = self._frames[-1], self._before(number)
        if kind == "number" and self._is_place(number, frame):
            return Purpose.PLACE
        if self._kept_by_command(kind) or self._type_of(number) in _KEPT_TYPES:
            return Purpose.SETTING
        if before in ("limit", "offset", "first", "next", "escape", "uescape", "interval") or frame.subscript:
            return Purpose.SETTING
        if before == "zone" and self._words[max(0, number - 3) : number - 1] == ["at", "time"]:
            return Purpose.SETTING
        if before == ")" and kind == "string" and self._behind_modifier(number) == "interval":
            return Purpose.SETTING
        operator = self._operator(number)
        if operator in _KEYED:
            return Purpose.SETTING
        if operator in _MATCHED or (before == "to" and self._before(number - 1) == "similar"):
            return Purpose.PATTERN
        return self._of_argument(number, kind, frame)

    def _is_place(self, number: int, frame: _Frame) -> bool:
        if frame.modifiers:
            return True
        alone = self._before(number) in ("by", ",", "(") and self._behind(number) in _BEHIND_PLACE
        last = number + 1 == len(self._at) or self._pieces[self._at[number + 1]].kind in ("word", "other")
        return frame.places and alone and last and self._pieces[self._at[number]].text.isdigit()

    def _kept_by_command(self, kind: str) -> bool:
        if self._command in _UTILITY:
            return True
        if self._command in _SCHEMA:
            return not self._in_query
        if self._command == "prepare":
            return self._words[1:2] == ["transaction"]
        if self._command == "copy":
            # The query stands in brackets; what is behind it is how its rows are written.
            return len(self._frames) == 1 or not self._in_query or self._frames[1].opened != "copy"
        return False

    def _type_of(self, number: int) -> str:
        """Returns the type that a literal is cast to, or stands behind."""
        place = number + 1
        if self._behind(number) == self._behind(number, 2) == ":":
            place = number + 3
        elif self._frames[-1].opened == "cast" and self._behind(number) == "as":
            place = number + 2
        else:
            return self._before(number)
        while place + 2 < len(self._words) and self._words[place + 1] == ".":
            place += 2
        return self._words[place] if place < len(self._words) else ""

    def _behind_modifier(self, number: int) -> str:
        """Returns the word in front of the brackets that end before this word: `interval(3) '…'`."""
        return self._before(number - 3) if self._before(number - 2) == "" else ""

    def _operator(self, number: int) -> str:
        """Returns the operator in front of a literal, a sign of the literal left out."""
        operator = ""
        place = self._at[number] - 1
        if place >= 0 and self._pieces[place].kind == "space":
            place -= 1
        while place >= 0 and self._pieces[place].kind == "other" and self._pieces[place].text in _OPERATOR:
            operator = self._pieces[place].text + operator
            place -= 1
        return operator if operator in _KEYED else operator.rstrip("+-")

    def _of_argument(self, number: int, kind: str, frame: _Frame) -> Purpose:
        name = frame.opened
        if frame.argument in _SETTINGS.get(name, ()):
            return Purpose.SETTING
        if name == "extract" and self._before(number) == "(":
            return Purpose.SETTING
        if name in _COUNTING and kind in ("number", "parameter"):
            return Purpose.SETTING
        if name in _CONFIGURED and frame.argument == 1 and self._behind(number) == ",":
            return Purpose.SETTING
        if name.startswith(("to_reg", "has_")):
            return Purpose.SETTING
        if name.startswith("pg_") and kind == "string" and name != "pg_notify":
            return Purpose.SETTING
        if name in _PATTERN_ARGUMENT and frame.argument == 2:
            return Purpose.PATTERN
        if name == "substring" and kind == "string" and self._before(number) == "from":
            return Purpose.PATTERN
        return Purpose.VALUE


__all__ = ["Purpose", "may_have_places", "purposes"]
