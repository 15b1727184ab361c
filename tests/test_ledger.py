"""A study that is done in pieces counts what earlier pieces have found, a restart between them or not."""

from __future__ import annotations

from pathlib import Path

from support.ledger import Ledger


def test_a_study_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    first = Ledger(path)
    first.add({"n": 1})
    first.add({"n": 2})
    path.write_bytes(path.read_bytes()[:-3])  # as a restart of the machine leaves it
    second = Ledger(path)
    assert second.before == [{"n": 1}]
    second.add({"n": 3})
    assert Ledger(path).before == [{"n": 1}, {"n": 3}]


def test_a_piece_ends_after_its_hours() -> None:
    assert Ledger(None, hours=0).over()
    assert not Ledger(None, hours=1).over()
