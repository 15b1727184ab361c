"""The identity of a replay's statements, in records of now and in those of older run folders."""

from __future__ import annotations

import msgspec
import pytest

from pgstrata.errors import StoreError
from pgstrata.store.record import AloneRecord, ReplayFailureRecord, StatementRecord
from pgstrata.store.statement import Statement, recorded_statement, statement_of

COUNTS = {"count": 1, "errors": 0, "rows": 0, "seconds_total": 0.1, "seconds_max": 0.1}


def test_a_statement_is_known_by_its_number() -> None:
    name = "#12 SELECT '#1 x'"
    record = msgspec.convert({"number": 12, "name": name, **COUNTS}, StatementRecord)
    assert statement_of(record) == Statement(12, name)
    assert statement_of(record).text == "SELECT '#1 x'"


def test_older_records_have_the_number_in_the_name_alone() -> None:
    name = "#12 SELECT '#1 x'"
    for record in (msgspec.convert({"name": name, **COUNTS}, StatementRecord), AloneRecord(name=name)):
        assert statement_of(record) == Statement(12, name)
    failure = ReplayFailureRecord(statement=name, then=None, now="42601", count=1, message="no")
    assert recorded_statement(failure.number, failure.statement) == Statement(12, name)


def test_two_files_are_not_taken_for_one() -> None:
    """Numbers alone would be equal: statements of other captured files have other texts."""
    assert recorded_statement(3, "#3 SELECT 1") != recorded_statement(3, "#3 SELECT 2")


def test_a_name_without_a_number_is_damage() -> None:
    with pytest.raises(StoreError, match="'SELECT 1' has no number"):
        recorded_statement(None, "SELECT 1")


def test_statements_of_other_steps_are_written_without_a_number() -> None:
    record = msgspec.convert({"name": "q", **COUNTS}, StatementRecord)
    assert "number" not in msgspec.to_builtins(record)
