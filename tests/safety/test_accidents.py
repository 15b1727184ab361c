"""A full disk and the death of any process, in every phase of every command that starts some.

With `make slow STATE=FOLDER` each accident stands in accidents.jsonl there, and the study goes on from it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.accidents import study
from support.commands import workshop
from support.disks import small_disk
from support.kills import Room
from support.ledger import Ledger
from support.users import needs_root

ACCIDENTS = int(os.environ.get("PGSTRATA_ACCIDENTS", "200"))
SEED = int(os.environ.get("PGSTRATA_KILLS_SEED", str(int(time.time()))))
FACTOR = float(os.environ.get("PGSTRATA_ACCIDENT_FACTOR", "2"))
"""How many times as long as on an idle machine commands take here, about."""

WRITES = (
    *("run one", "run windows", "run rounds", "run frozen", "run replayed", "run tpcds", "count", "patch"),
    *("bisect configs", "bisect commits", "upgrade", "noise", "capture", "report", "servers build", "bench"),
)

pytestmark = needs_root


def accidents(
    place: Path,
    server: Server,
    names: tuple[str, ...],
    number: int,
    capsys: pytest.CaptureFixture[str],
    ledger: Ledger,
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    earlier = len(ledger.before)
    ledger.begin(seed=SEED, factor=FACTOR)
    with small_disk(place / "disk", "2500m") as disk, workshop(disk, server) as shop, Room(disk) as room:
        room.output = place / "said"  # the test needs it where there is room
        say(f"\nseed {SEED}")
        commands = [shop.named(name) for name in names]
        tally = study(room, commands, number, SEED, FACTOR, say, ledger)
    say(f"{len(tally.accidents)} accidents, {tally.late} too late, {len(tally.faults)} with faults")
    # Faults of earlier pieces failed these.
    assert [str(accident) for accident in tally.accidents[earlier:] if accident.faults] == []


@pytest.mark.timeout(1200)
def test_some_commands_after_an_accident(
    place: Path, pg17: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    accidents(place, pg17, ("run one", "capture"), 4, capsys, Ledger(None))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_command_after_an_accident(
    place: Path, pg17: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    accidents(place, pg17, WRITES, ACCIDENTS, capsys, Ledger.of("accidents"))
