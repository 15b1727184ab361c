"""How often a log is replayed, what versions are called, and what of a log is left out for want of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgstrata.campaign.plan.order import seconds_of
from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Database, Header, Shape
from pgstrata.traffic.replay.options import ReplayOptions
from pgstrata.traffic.replay.steps import replay_step
from pgstrata.traffic.upgrade.campaign import _stack, labels, rounds_in_time
from pgstrata.traffic.upgrade.question import Question, server_of, spec_of, targets_of
from pgstrata.traffic.upgrade.versions import Servers


def question(**more: Any) -> Question:
    given: dict[str, Any] = {"base": "13", "targets": ("17",), "dumps": (), "logs": (), "folder": Path()}
    return Question(**{**given, **more})


@pytest.mark.parametrize(
    ("minutes", "length", "keys", "seconds"),
    [
        (60, 2, {"until": "verdict", "max_seconds": 1800.0}, 448.0),
        (60, 178, {"until": "verdict", "max_seconds": 3560.0}, 448.0),
        (60, 190, {"rounds": 8}, 223.0),
        (60, 290, {"rounds": 6}, 320.0),
        (60, 400, {"rounds": 4}, 448.0),
        (60, 449, {"rounds": 4}, 448.0),
        (60, 86_400, {"rounds": 4}, 448.0),
        (0.1, 60, {"rounds": 4}, 1.0),
    ],
)
def test_as_many_rounds_as_the_time_holds(
    minutes: float, length: float, keys: dict[str, object], seconds: float
) -> None:
    header = Header(begin=10**15, end=10**15 + int(length * 1e6))
    rounds = rounds_in_time(question(minutes=minutes), ReplayOptions(), header, 2, 2.0)
    # A version that does not keep the pace is ended where its share of the time is over.
    assert dict(rounds.keys) == keys and rounds.seconds == seconds and rounds.cut == (seconds < length)
    # All of it, however long that takes, for those who say how often.
    asked = rounds_in_time(question(minutes=minutes, rounds=2), ReplayOptions(), header, 2, 2.0)
    assert (dict(asked.keys), asked.seconds) == ({"rounds": 2}, None)
    # Who asks for less gets less.
    less = rounds_in_time(question(minutes=minutes), ReplayOptions(seconds=0.5), header, 2, 2.0)
    assert less.seconds == 0.5
    # Ten times the pace is ten times the rounds.
    quick = rounds_in_time(
        question(minutes=minutes), ReplayOptions(speed=10), Header(begin=0, end=10**7), 2, 2.0
    )
    assert "until" in quick.keys or minutes < 1


def test_as_fast_as_answers_come_there_are_enough_rounds_to_look() -> None:
    """The log's statements took a tenth of a second of its ten: how long they take now nobody knows."""
    header = Header(begin=0, end=10**7, seconds=0.1, most_sessions=1)
    rounds = rounds_in_time(question(), ReplayOptions(speed=0), header, 2, 2.0)
    assert dict(rounds.keys) == {"until": "verdict", "max_seconds": 200.0}


def test_a_round_takes_as_long_as_its_log_and_not_as_it_may() -> None:
    header = Header(begin=0, end=130_000, databases=[Database("shop", statements=1)])
    seconds = rounds_in_time(question(), ReplayOptions(), header, 2, 2.0).seconds
    step = replay_step(ReplayOptions(seconds=seconds), header, [])
    assert step.seconds == 448.0 and seconds_of(step) == 0.13


def test_servers_have_room_for_what_the_log_needs(tmp_path: Path) -> None:
    results = tmp_path / "runs"
    prepares = [Shape("SELECT $1"), Shape("prepare transaction $1")]
    for header, settings in (
        (Header(most_sessions=90, shapes=[Shape("PREPARE a AS SELECT $1")]), ""),
        (Header(most_sessions=91), "max_connections = 111\n"),
        (Header(most_sessions=3, shapes=prepares), "max_prepared_transactions = 23\n"),
        (
            Header(most_sessions=200, shapes=prepares),
            "max_connections = 220\nmax_prepared_transactions = 220\n",
        ),
    ):
        first, *others = _stack(question(config="own.conf"), header, results)
        assert [first, *others][-1] == "own.conf" and bool(others) == bool(settings)
        if settings:
            assert Path(first).read_text() == settings


def test_versions_are_called_as_they_were_written() -> None:
    def server(spec: str, label: str, number: int) -> Server:
        return Server(spec, label, label.removeprefix("pg"), number, bin_dir=Path("/nowhere"))

    old, new = server("pg:13.22", "pg13.22", 130022), server("pg:17.6", "pg17.6", 170006)
    asked = question(targets=("17", "path:/opt/pg17"))
    servers = Servers(old, (("17", new), ("path:/opt/pg17", new)), {}, ())
    assert labels(asked, servers) == ["13", "17", "pg17.6"]
    assert [spec_of(text) for text in ("13", "17.6", "18beta1", "path:/opt", "pg:17")] == [
        "pg:13",
        "pg:17.6",
        "pg:18beta1",
        "path:/opt",
        "pg:17",
    ]


@pytest.mark.parametrize(
    ("text", "spec", "label"),
    [
        ("17", "pg:17", None),
        ("17=new", "pg:17", "new"),
        ("path:/opt/new=new", "path:/opt/new", "new"),
        ("release:17.11", "release:17.11", None),
    ],
)
def test_servers_of_an_upgrade_may_have_labels(text: str, spec: str, label: str | None) -> None:
    server = server_of(text)
    assert (server.spec, server.label) == (spec, label)


def test_versions_may_stand_with_commas() -> None:
    assert targets_of(["16,17=new", "pg:18,path:/opt/x"]) == ("16", "17=new", "pg:18", "path:/opt/x")
