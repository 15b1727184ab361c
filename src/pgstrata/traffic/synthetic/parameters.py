"""The parameters of one statement, drawn anew for each of its calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from pgstrata.traffic.synthetic.asked import AskedExpressions
from pgstrata.traffic.synthetic.draw import Distribution, FreshKeys, UnknownValuesError
from pgstrata.traffic.synthetic.guesses import guessed, made_up
from pgstrata.traffic.synthetic.names import Tables
from pgstrata.traffic.synthetic.numbering import LARGEST, base_type
from pgstrata.traffic.synthetic.origins import (
    Hide,
    Origin,
    Value,
    array_of,
    beginning_like,
    beginning_pattern,
    changed,
    constant,
    drawn_from,
    drawn_together,
    hidden,
    put_into,
    range_between,
    range_beyond,
    whole,
)
from pgstrata.traffic.synthetic.questions import Questions
from pgstrata.traffic.synthetic.rows import RowsOf
from pgstrata.traffic.synthetic.statistics import CalledStatement, KnownColumn
from pgstrata.traffic.synthetic.use import NotUnderstoodError, Understood, Use, numbers_in

MOST_LISTED = 1000
"""Values in an array behind ANY, where the rows of a call let one think of more."""

NO_TABLES = Tables(())


@dataclass
class KnownValues:
    """What is known of the columns, each looked at once."""

    distributions: dict[KnownColumn, Distribution | None] = field(default_factory=dict)
    fresh: dict[KnownColumn, FreshKeys] = field(default_factory=dict)

    def distribution(self, column: KnownColumn) -> Distribution | None:
        """Returns the distribution of a column; None if nothing says which values it has."""
        if column not in self.distributions:
            try:
                self.distributions[column] = Distribution(column)
            except UnknownValuesError:
                self.distributions[column] = None
        return self.distributions[column]

    def keys(self, column: KnownColumn) -> FreshKeys:
        """Raises UnknownValuesError where no new key can be made."""
        if column not in self.fresh:
            self.fresh[column] = FreshKeys(column)
        return self.fresh[column]


def origins(
    understood: Understood,
    called: CalledStatement,
    known: KnownValues,
    types: Sequence[str] | None,
    rows_of: RowsOf | None = None,
    questions: Questions | None = None,
    tables: Tables = NO_TABLES,
) -> list[Origin]:
    """Returns the origins of the values of every parameter. types: as a server has found them out, None where
    none was asked. rows_of: samples rows of its tables; questions: asks it for what expressions have there;
    tables: whose columns arguments of functions are named after.

    Raises NotUnderstoodError for a parameter of which nothing is known.
    """
    return _Origins(understood, called, known, types, rows_of, questions, tables).origins()


class _Origins:
    def __init__(
        self,
        understood: Understood,
        called: CalledStatement,
        known: KnownValues,
        types: Sequence[str] | None,
        rows_of: RowsOf | None,
        questions: Questions | None,
        tables: Tables,
    ) -> None:
        self._understood, self._called, self._known, self._types = understood, called, known, types
        self._rows_of, self._tables = rows_of, tables
        count = max(numbers_in(understood.text), *understood.uses, 0, 0)
        self._uses = {number: self._best(number) for number in range(1, count + 1)}
        self._rows = called.rows / max(1, called.calls)
        self._blocks = called.blocks / max(1, called.calls)
        self._fresh = self._fresh_columns()
        selective = self._rows if understood.single and understood.whole else None
        self._expressions = AskedExpressions(self._uses, understood.uses, questions, selective)

    def origins(self) -> list[Origin]:
        known = self._ranges() + self._of_rows()
        done = {number for origin in known for number in origin.numbers}
        return known + [self._single(n, use) for n, use in self._uses.items() if n not in done]

    def _best(self, number: int) -> Use:
        """Returns the most informative of a parameter's uses."""
        uses = self._understood.uses.get(number, [])
        best = min(uses, key=_rank, default=Use("guess"))
        if best.type or not self._types or number > len(self._types):
            return best
        return replace(best, type=self._types[number - 1])

    # --- new keys ---------------------------------------------------------------------------------

    def _fresh_columns(self) -> set[KnownColumn]:
        """Returns one column of each unique index that a row is put into, which gets new keys: whole numbers
        before others, and a column that refers to no other table."""
        if self._understood.upserts:
            return set()
        kinds = ("insert", "set", "rows")
        put = [use for use in self._uses.values() if use.kind in kinds and use.column is not None]
        by_index: dict[str, list[KnownColumn]] = {}
        for use in put:
            assert use.column is not None
            for key in use.column.keys:
                by_index.setdefault(key, []).append(use.column)
        fresh: set[KnownColumn] = set()
        for columns in by_index.values():
            able = [column for column in columns if not column.refers and self._makes_keys(column)]
            if able and not fresh & set(columns):
                fresh.add(min(able, key=lambda column: base_type(column.type) not in LARGEST))
        return fresh

    def _makes_keys(self, column: KnownColumn) -> bool:
        try:
            self._known.keys(column)
        except UnknownValuesError:
            return False
        return True

    # --- ranges -------------------------------------------------------------------------------------

    def _ranges(self) -> list[Origin]:
        """Returns the origins of ranges, `a > $1`, `a BETWEEN $1 AND $2`: as wide as the rows of a call let
        one think, or drawn."""
        by_column: dict[KnownColumn, list[tuple[int, Use]]] = {}
        for number, use in self._uses.items():
            if use.kind in _RANGES and use.column is not None:
                by_column.setdefault(use.column, []).append((number, use))
        known = {column: self._known.distribution(column) for column in by_column}
        share = self._share(
            len(
                [
                    known_distribution
                    for known_distribution in known.values()
                    if known_distribution is not None
                ]
            )
        )
        origins: list[Origin] = []
        for column, ends in by_column.items():
            distribution = known[column]
            if distribution is None:
                continue
            if like := next((number for number, use in ends if use.kind == "like"), None):
                origins.append(beginning_like(like, distribution, self._uses[like], share))
            low = next((number for number, use in ends if use.kind == "greater"), None)
            high = next((number for number, use in ends if use.kind == "less"), None)
            rest = [number for number, _ in ends if number not in (like, low, high)]
            if low is not None and high is not None:
                origins.append(range_between(distribution, low, high, share))
            elif low is not None:
                origins.append(range_beyond(distribution, low, share, above=True))
            elif high is not None:
                origins.append(range_beyond(distribution, high, share, above=False))
            origins += [drawn_from(number, distribution, None) for number in rest]
        return origins

    def _share(self, ranges: int) -> float | None:
        """Returns the share of a table's rows that one range is to take in, by the number of rows a call has
        had; None if that number does not tell."""
        if not self._understood.single or not ranges:
            return None
        shares: dict[tuple[KnownColumn, str], float] = {}
        for use in self._uses.values():
            if use.kind in ("regular", "any", "element", "contains", "within"):
                return None
            if use.column is None or use.kind not in ("equal", "unequal", *_RANGES):
                continue
            distribution = self._known.distribution(use.column)
            if distribution is None:
                return None
            key = use.column, use.kind
            # The values of a list: rows that have one of them.
            shares[key] = shares.get(key, 0.0) + distribution.selectivity()
        share = math.prod(
            {"equal": min(1.0, selectivity), "unequal": max(0.0, 1.0 - selectivity)}.get(kind, 1.0)
            for (_, kind), selectivity in shares.items()
        )
        table = next((column for column, _ in shares), None)
        if table is None or table.rows * share <= 0:
            return None
        if self._understood.whole:
            rows = self._rows
        elif self._blocks and self._blocks < table.pages:
            # Not the whole table: of rows that lie together each block has many, of others one.
            together = abs(table.correlation)
            rows = self._blocks * (together * table.rows / table.pages + 1 - together)
        else:
            return None
        return float(min(1.0, rows / (table.rows * share)) ** (1 / ranges))

    # --- rows ---------------------------------------------------------------------------------------

    def _of_rows(self) -> list[Origin]:
        """Returns the origins of columns of one table that are compared with values, drawn from one row:
        `tenant = $1 AND id = $2`. A single column is drawn so only if its statistics have too few values."""
        if self._rows_of is None:
            return []
        by_table: dict[tuple[str, str], dict[KnownColumn, int]] = {}
        for number, use in self._uses.items():
            column = use.column
            if use.kind == "equal" and column is not None and not column.elements and not column.definition:
                by_table.setdefault((column.schema, column.table), {}).setdefault(column, number)
        origins: list[Origin] = []
        for uses in by_table.values():
            columns = list(uses)
            if len(columns) == 1 and not self._few_are_known(columns[0]):
                continue
            if rows := self._rows_of(columns):
                changes = [self._change(uses[column]) for column in columns]
                origins.append(drawn_together(tuple(uses.values()), columns, changes, rows))
        return origins

    def _few_are_known(self, column: KnownColumn) -> bool:
        distribution = self._known.distribution(column)
        return distribution is not None and not distribution.knows_all

    def _change(self, number: int) -> Callable[[str], str] | None:
        use = self._uses[number]
        assert use.column is not None
        return whole if self._to_whole(use, use.column) else use.change

    # --- one parameter ------------------------------------------------------------------------------

    def _single(self, number: int, use: Use) -> Origin:
        match use.kind:
            case "limit":
                rows = max(1, round(self._rows)) if self._called.rows else 10
                return constant(number, str(rows), f"LIMIT, guessed by its rows: {rows}")
            case "offset":
                return constant(number, "0", "OFFSET, guessed: 0")
            case "key":
                return self._expressions.key_origin(number)
            case "sequence":
                return self._expressions.sequence_origin(number, use)
            case "argument":
                return self._argument(number, use)
            case "guess":
                return self._guessed(number, use)
        column = use.column
        if column is None:
            return self._expressions.compared_origin(number, use) or self._guessed(number, use)
        if use.kind == "rows":
            return self._rows_put(number, column)
        if column in self._fresh and use.kind in ("insert", "set"):
            keys = self._known.keys(column)
            return Origin(
                (number,), lambda dice, hide: (hide(keys.value(dice)),), f"new keys of {column.title}"
            )
        if base_type(column.type).endswith("range") and use.type not in ("", base_type(column.type)):
            if (origin := self._expressions.bound_origin(number, column)) is not None:
                return origin
            raise NotUnderstoodError(f"what ${number} is to {column.title} (type {column.type}) is not known")
        if use.kind == "contains" and column.type.startswith("json"):
            if (origin := self._expressions.part_origin(number, use)) is not None:
                return origin
        elif use.kind == "element" or (column.elements and use.kind == "contains"):
            return self._element(number, use, column)
        if use.kind in ("contains", "within") and base_type(use.type) not in ("", base_type(column.type)):
            return self._guessed(number, Use("guess", type=use.type))  # of a point, what a box is
        distribution = self._known.distribution(column)
        if distribution is None:
            return self._of_sampled(number, column) or made_up(number, use, column)
        match use.kind:
            case "any":
                return self._listed(number, use, distribution)
            case "regular":
                return beginning_pattern(number, distribution, use)
            case "insert" | "set":
                return put_into(number, distribution)
        return drawn_from(number, distribution, self._change(number))

    def _of_sampled(self, number: int, column: KnownColumn) -> Origin | None:
        """Returns an origin with the values of a column as sampled rows have them, where its statistics have
        none; None where none are sampled."""
        # Masked, a document or a range would be none any more.
        if self._rows_of is None or not self._expressions.may_ask:
            return None
        rows = self._rows_of([column])
        return drawn_together((number,), [column], [None], rows) if rows else None

    def _guessed(self, number: int, use: Use) -> Origin:
        """Returns an origin with the value that its place or its type makes likely; else with those of a
        column of its type. Raises NotUnderstoodError where there is neither."""
        try:
            return guessed(number, use, is_used=bool(self._understood.uses.get(number)))
        except NotUnderstoodError:
            for column in self._tables.columns_of_type(use.type) if use.type else ():
                if (distribution := self._known.distribution(column)) is not None:
                    return replace(drawn_from(number, distribution, None), guessed=True)
            raise

    def _argument(self, number: int, use: Use) -> Origin:
        """Returns an origin for an argument of a function: values of the column that it is named after, else
        guessed. Raises NotUnderstoodError where neither is possible."""
        column, type_ = self._expressions.argument_column(use, self._tables)
        distribution = self._known.distribution(column) if column is not None else None
        if distribution is None:
            return self._guessed(number, Use("guess", type=use.type or type_))
        return replace(drawn_from(number, distribution, None), guessed=True)

    def _to_whole(self, use: Use, column: KnownColumn) -> bool:
        """Returns whether a column of fractions is compared with a whole number, `price = $1::int`."""
        fractions = ("numeric", "real", "double precision")
        return base_type(use.type) in LARGEST and base_type(column.type) in fractions

    def _element(self, number: int, use: Use, column: KnownColumn) -> Origin:
        if not column.elements:
            raise NotUnderstoodError(f"which elements {column.title} has is not known")
        values = [value for value, _ in column.elements]
        shares = [share for _, share in column.elements]
        whole = use.kind == "contains" and column.type.endswith("[]")

        def draw(dice: Random, hide: Hide) -> Sequence[Value]:
            (value,) = dice.choices(values, shares)
            return (array_of([hide(value)]) if whole else hide(value),)

        return Origin((number,), draw, f"elements of {column.title}")

    def _rows_put(self, number: int, column: KnownColumn) -> Origin:
        """Returns an origin with arrays of what rows are put into a column, as many as a call had."""
        length = max(1, min(MOST_LISTED, round(self._rows)))
        distribution = self._known.distribution(column)
        keys = self._known.keys(column) if column in self._fresh else None
        if distribution is None and keys is None:
            return made_up(number, Use("any"), column)

        def draw(dice: Random, hide: Hide) -> Sequence[Value]:
            if keys is not None:
                values = [hide(keys.value(dice)) for _ in range(length)]
            else:
                assert distribution is not None
                values = [hidden(distribution.equal(dice), column, hide) for _ in range(length)]
            return (array_of(values),)

        return Origin((number,), draw, f"{length} put into {column.title}", guessed=True)

    def _listed(self, number: int, use: Use, distribution: Distribution) -> Origin:
        """Returns the origin of an array behind ANY: of a unique column as long as a call had rows."""
        column = distribution.column
        length = max(1, min(MOST_LISTED, round(self._rows))) if column.keys and self._called.rows else 5

        def draw(dice: Random, hide: Hide) -> Sequence[Value]:
            values = (changed(distribution.equal(dice), use.change) for _ in range(length))
            return (array_of([hidden(value, column, hide) for value in values]),)

        return Origin((number,), draw, f"{length} of {column.title}", guessed=True)


_RANGES = ("less", "greater", "like")
_RANKS = (
    "limit",
    "offset",
    "equal",
    "unequal",
    "any",
    "element",
    "contains",
    "within",
    "rows",
    "insert",
    "set",
    "greater",
    "less",
    "like",
    "regular",
)


def _rank(use: Use) -> tuple[bool, int]:
    return use.column is None and use.kind not in ("limit", "offset"), (
        _RANKS.index(use.kind) if use.kind in _RANKS else 2 * len(_RANKS)
    )


__all__ = ["KnownValues", "origins"]
