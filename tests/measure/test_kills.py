"""Whatever ends pgstrata, and whenever: nothing is left of processes, shared memory, groups and folders."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.server.find.model import Server
from pgstrata.server.system import control_groups
from pgstrata.server.system.memory import MemoryGroup
from support.kills import (
    FROZEN,
    HUP,
    INT,
    KILL,
    LIMITED,
    ONE,
    TERM,
    Phase,
    Room,
    Tally,
    has_group,
    has_segment,
    loop,
    phases,
    strike,
    works,
)
from support.sources import debian_archive

KILLS = int(os.environ.get("PGSTRATA_KILLS", "300"))
SEED = int(os.environ.get("PGSTRATA_KILLS_SEED", str(int(time.time()))))


@pytest.fixture
def room(place: Path) -> Iterator[Room]:
    with Room(place) as new_room:
        yield new_room


def can_limit() -> bool:
    group = MemoryGroup("probe", 256 << 20)
    try:
        control_groups.remove_group(group.make())
    except ServerError:
        return False
    return True


def spec(server: Server) -> str:
    """Of an installation, so that the cache of a room need not have it."""
    assert server.bin_dir is not None
    return f"path:{server.bin_dir.parent}"


@pytest.mark.parametrize("number", [INT, TERM, HUP, KILL])
def test_initdb_leaves_no_shared_memory(number: signal.Signals, room: Room, pg17: Server) -> None:
    tally = Tally()
    strike(room, Phase("memory of initdb", ONE, has_segment, 0), spec(pg17), number, 0.0, tally)
    assert tally.left == []
    assert tally.strikes.total() == 1


@pytest.mark.parametrize("number", [INT, KILL])
def test_no_group_is_left_without_its_server(number: signal.Signals, room: Room, pg17: Server) -> None:
    if not can_limit():
        pytest.skip("no group for memory can be made here")
    tally = Tally()
    strike(room, Phase("group", LIMITED, has_group, 0), spec(pg17), number, 0.0, tally)
    assert tally.left == []
    assert tally.strikes.total() == 1


@pytest.mark.parametrize("number", [INT, KILL])
def test_nothing_stays_frozen(number: signal.Signals, room: Room, pg17: Server) -> None:
    tally = Tally()
    strike(room, Phase("frozen turns", FROZEN, works, 0), spec(pg17), number, 2.0, tally)
    assert tally.left == []
    assert tally.strikes.total() == 1


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_nothing_is_left_of_random_kills(
    room: Room, pg17: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make slow KILLS=1000` strikes as often; PGSTRATA_KILLS_SEED repeats what failed."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    say(f"\nseed {SEED}")
    strikes = phases(can_limit(), debian_archive(17, "trixie"))
    tally = loop(room, strikes, spec(pg17), KILLS, SEED, say)
    say(tally.table())
    assert tally.left == []
    assert tally.strikes.total() >= KILLS
