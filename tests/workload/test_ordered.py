"""The order that a query asks for, apart from the order of rows that are equal in all its keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.workload.core.ordered import (
    Order,
    all_rows_of,
    digests_of,
    end_of_order,
    in_both_directions,
    order_of,
)

Row = tuple[int, bytes]


def answered(rows: list[Row], limit: int | None = None, *, falling: bool = False) -> Order:
    """The order of an answer to SELECT value … ORDER BY key [LIMIT limit]."""
    sign = -1 if falling else 1
    upwards = sorted(sorted(rows, key=lambda row: row[1]), key=lambda row: sign * row[0])
    downwards = sorted(sorted(rows, key=lambda row: row[1], reverse=True), key=lambda row: sign * row[0])
    return order_of(*([value for _, value in both[:limit]] for both in (upwards, downwards)))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT a FROM t WHERE b = 1 LIMIT 20", "SELECT a FROM t WHERE b = 1 "),
        ("SELECT a FROM t -- LIMIT\nOFFSET 3 LIMIT 1;", "SELECT a FROM t -- LIMIT\n"),
        (
            "(SELECT a FROM t ORDER BY a) UNION SELECT 1 FETCH FIRST ROW ONLY",
            "(SELECT a FROM t ORDER BY a) UNION SELECT 1 ",
        ),
        ("SELECT a FROM t ORDER BY a LIMIT 1", None),
        ("SELECT a FROM t WHERE b = (SELECT 1 LIMIT 1)", None),
        ("SELECT t.limit, 'LIMIT 1' FROM t", None),
        ("FETCH 20 FROM c", None),
    ],
)
def test_rows_from_which_a_limit_takes_any(text: str, rows: str | None) -> None:
    whole = all_rows_of(text)
    assert whole is None if rows is None else whole is not None and f" FROM ({rows}\n) AS " in whole


ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([b"a", b"b", b"c", b""])), max_size=20)


@given(ROWS)
def test_groups_are_rows_that_are_equal_in_their_keys(rows: list[Row]) -> None:
    order = answered(rows)
    assert not order.is_open
    # Equal rows need no group of their own; rows that differ are in one where their key is the same.
    assert len(order.groups) >= len({key for key, _ in rows})
    assert len(order.groups) <= len(rows)


@given(ROWS, st.randoms())
def test_rows_of_one_key_may_come_in_any_order(rows: list[Row], random: object) -> None:
    moved = list(rows)
    random.shuffle(moved)  # type: ignore[attr-defined]
    digests, is_unknown = digests_of([answered(rows), answered(moved)])
    assert len(set(digests)) == 1 and not is_unknown


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), min_size=2, max_size=20, unique=True))
def test_another_order_of_keys_is_another_answer(pairs: list[tuple[int, int]]) -> None:
    rows = [(key, b"%d" % (100 * key + number)) for key, number in pairs]
    digests, is_unknown = digests_of([answered(rows), answered(rows, falling=True)])
    is_one_group = len({key for key, _ in rows}) == 1
    assert (len(set(digests)) == 1) == is_one_group and not is_unknown


@given(ROWS, st.integers(0, 20))
def test_what_a_limit_cuts_through_is_open(rows: list[Row], limit: int) -> None:
    order = answered(rows, limit)
    keys = sorted(key for key, _ in rows)
    is_cut = 0 < limit < len(rows) and keys[limit - 1] == keys[limit]
    assert is_cut or not order.is_open
    whole = answered(rows)
    digests, is_unknown = digests_of([order, order])
    assert is_unknown == order.is_open and len(set(digests)) == 1
    assert order.groups == whole.groups[: len(order.groups)] or is_cut


def test_a_change_before_what_is_open_is_one() -> None:
    rows = [(1, b"x"), (2, b"a"), (2, b"b")]
    changed = [(1, b"y"), (2, b"a"), (2, b"b")]
    assert answered(rows, 2).is_open
    digests, is_unknown = digests_of([answered(rows, 2), answered(changed, 2)])
    assert len(set(digests)) == 2 and not is_unknown


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("SELECT a FROM t ORDER BY b", ""),
        ("SELECT a FROM t ORDER BY b DESC NULLS LAST LIMIT 5", " LIMIT 5"),
        ("select a from t order  by f(b, 1), c[1] offset 3;", " offset 3;"),
        ("SELECT a FROM t ORDER BY t.limit -- LIMIT 7\n", " -- LIMIT 7\n"),
        (
            "SELECT a FROM t ORDER /* by */ BY b /* LIMIT */ FETCH FIRST ROW ONLY",
            " /* LIMIT */ FETCH FIRST ROW ONLY",
        ),
        ('SELECT a AS "order", b FROM t ORDER BY "limit" ;', " ;"),
        ("WITH x AS (SELECT 1 ORDER BY 1) SELECT * FROM x UNION SELECT 2 ORDER BY 1", ""),
        ("SELECT row_number() OVER (ORDER BY b) FROM t ORDER BY (SELECT 1 LIMIT 1)", ""),
    ],
)
def test_where_the_outermost_order_ends(text: str, behind: str) -> None:
    end = end_of_order(text)
    assert end is not None and text[end:] == behind
    assert in_both_directions(text, 2) == (
        f"{text[:end]}, 1 ASC, 2 ASC{behind}",
        f"{text[:end]}, 1 DESC, 2 DESC{behind}",
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t",
        "SELECT row_number() OVER (ORDER BY b) FROM t",
        "SELECT string_agg(a, ',' ORDER BY a) FROM t LIMIT 5",
        "WITH x AS (SELECT 1 ORDER BY 1) SELECT * FROM x",
        "SELECT 'ORDER BY a' -- ORDER BY a",
        "SELECT t.order, by FROM t",
    ],
)
def test_queries_that_ask_for_no_order(text: str) -> None:
    assert end_of_order(text) is None and in_both_directions(text, 2) is None


@given(st.text(alphabet="abo()[];'\"-/*$ \n", max_size=60))
def test_any_text_has_an_end_or_none(text: str) -> None:
    end = end_of_order(f"SELECT a ORDER BY {text}")
    assert end is None or 0 < end <= len(text) + 18
