"""Ctrl-C in every command at any moment, on a busy machine: a prompt end, and nothing left.

`make slow INTERRUPTS=1000` interrupts as often; PGSTRATA_KILLS_SEED repeats the moments. With STATE=FOLDER
each strike stands in interrupts.jsonl there, and the study goes on from it. Seconds are those that an end
would take under the load of the study alone: its busy processes show what others leave.
PGSTRATA_INTERRUPT_BUSY starts fewer of these where the machine has load enough.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.commands import commands_of, shown_names, workshop
from support.interrupts import load, rooms_in, study
from support.kills import Room
from support.ledger import Ledger

INTERRUPTS = int(os.environ.get("PGSTRATA_INTERRUPTS", "1000"))
LANES = int(os.environ.get("PGSTRATA_INTERRUPT_LANES", "1"))
SEED = int(os.environ.get("PGSTRATA_KILLS_SEED", str(int(time.time()))))
BUSY = int(os.environ.get("PGSTRATA_INTERRUPT_BUSY", "8"))
ONLY = os.environ.get("PGSTRATA_INTERRUPT_COMMANDS", "")
"""Names of commands with commas between, where only these are studied."""
FEW = "run one,noise,capture,query,servers fetch,servers build"


def interrupt(
    place: Path,
    server: Server,
    number: int,
    lanes: int,
    busy: int,
    only: str,
    capsys: pytest.CaptureFixture[str],
    ledger: Ledger,
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    earlier = len(ledger.before)
    ledger.begin(
        seed=SEED, lanes=lanes, load_of=busy, busy=min(busy, BUSY), cpus=len(os.sched_getaffinity(0))
    )
    with ExitStack() as stack:
        (first, *others) = folders = rooms_in(place, lanes)
        first.mkdir()
        shop = stack.enter_context(workshop(first, server))
        if only:
            shop = shop.only(*only.split(","))
        for folder in others:
            shop.copy_to(folder)
        rooms = [stack.enter_context(Room(folder)) for folder in folders]
        others_busy = stack.enter_context(load(busy, BUSY))
        say(f"\nseed {SEED}")
        factor = 1 + (busy + lanes) / 2
        tally = study(rooms, others_busy, shop, number, SEED, say, factor, ledger)
    say(tally.table())
    assert tally.errors == []
    # Faults of earlier pieces failed these.
    assert [str(strike) for strike in tally.strikes[earlier:] if strike.faults] == []
    assert len(tally.strikes) >= number or ledger.over()


@pytest.mark.program
def test_every_command_of_the_program_is_studied() -> None:
    commands = commands_of("pg:17", "pg:13", "postgresql:///", "http://127.0.0.1:1")
    assert {command.subject for command in commands} == shown_names()


@pytest.mark.timeout(1200)
def test_some_commands_end_soon_after_ctrl_c(
    place: Path, pg17: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    # One busy process shows what other tests leave of the CPUs; they are the load.
    interrupt(place, pg17, 3, 1, 1, FEW, capsys, Ledger(None))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_command_ends_soon_after_ctrl_c(
    place: Path, pg17: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(place, pg17, INTERRUPTS, LANES, 8, ONLY, capsys, Ledger.of("interrupts"))
