"""Which answers of a replay are called changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.answers import compare
from pgstrata.store.record import AnswerRecord


def record(number: int, digest: str | None, *, varies: bool = False) -> AnswerRecord:
    return AnswerRecord(number=number, name=f"#{number} SELECT", digest=digest, varies=varies)


def test_each_kind_of_answer() -> None:
    base = [
        record(1, "a"),
        record(2, "a"),
        record(3, "a", varies=True),
        record(4, None),
        record(5, "a"),
        record(6, "a"),
        record(6, "b"),
    ]
    other = [
        record(1, "a"),
        record(2, "b"),
        record(3, "b"),
        record(4, "a"),
        record(5, None),
        record(6, "c"),
        record(7, "a"),
    ]
    compared = compare(base, other)
    assert [statement.number for statement in compared.changed] == [2]
    # What one side answers in two ways, in two repeats, varies; what one side was not asked has no answer.
    assert (compared.same, len(compared.varying), compared.unanswered) == (1, 2, 3)


RECORDS = st.lists(
    st.builds(record, st.integers(0, 5), st.sampled_from([None, "a", "b"]), varies=st.booleans()),
    max_size=12,
)


@given(RECORDS, RECORDS)
def test_each_statement_is_counted_once(base: list[AnswerRecord], other: list[AnswerRecord]) -> None:
    compared = compare(base, other)
    counted = len(compared.changed) + compared.same + len(compared.varying) + compared.unanswered
    assert counted == len({answer.number for answer in other})
    assert not compare(other, other).changed
    assert {statement.number for statement in compared.changed} == {
        statement.number for statement in compare(other, base).changed
    }
