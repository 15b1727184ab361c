"""Another user beside every command: no code of its making runs, no file is read, no link is followed.

With `make slow STATE=FOLDER` each attack stands in attacks.jsonl there, and the study goes on from it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.apart import Apart, Attack, attacked
from support.commands import RESULTS, Command, Workshop, workshop
from support.ledger import Ledger
from support.users import needs_root

SECRET = "c4n4ry-0f-a-c0al-m1ne"
PASSWORD = "pass-c4n4ry-w0rd"
ROUNDS = int(os.environ.get("PGSTRATA_ATTACKS", "2"))
"""How often every command is attacked; from the second time on with the names that were seen before."""

pytestmark = needs_root

DEFAULTS = Command("run by defaults", ("run", "plain.toml"), 6.0, (0, 1, 2), measures=True)
"""A campaign that names no data folder, which lies where other users can prepare something then."""


@contextmanager
def room_of(place: Path, server: Server, account: str | None) -> Iterator[tuple[Apart, Workshop]]:
    with workshop(place, server, SECRET) as shop:
        plain = (place / "one.toml").read_text().replace('data_dir = "data"\n', "")
        (place / "plain.toml").write_text(plain)
        room = Apart(place, account)
        with room:
            yield room, shop


def attack_commands(
    room: Apart,
    shop: Workshop,
    commands: list[Command],
    rounds: int,
    say: Callable[[str], None],
    ledger: Ledger,
) -> Attack:
    attack = Attack()
    roots = [str(room.place), "/tmp", "/var/tmp", "/dev/shm", "/run"]
    who = room.account.pw_name if room.account else "root"
    mine = [noted for noted in ledger.before if noted["account"] == who]
    for entry in mine:
        attack.take(entry["count"], [], entry["names"])
    done = {(entry["round"], entry["command"]) for entry in mine}
    for number in range(1, rounds + 1):
        for command in commands:
            if (number, command.name) in done:
                continue
            if ledger.over():
                return attack
            shutil.rmtree(room.place / RESULTS, ignore_errors=True)
            env = {**command.env, **room.environment(), "PGPASSWORD": PASSWORD}
            this = Attack()
            this.names = set(attack.names)
            with attacked(room, this, command.name, [SECRET, PASSWORD], roots):
                code = room.start(*command.arguments, **env).wait(600)
            if code not in (0, 1, 2, 3, *command.codes) or "Traceback" in room.printed:
                this.faults.append(f"{command.name}: exit code {code}: {room.printed[-1500:]}")
            attack.take(this.count, this.faults, sorted(this.names))
            ledger.add(
                {
                    **{"account": who, "round": number, "command": command.name, "code": code},
                    **{"count": this.count, "faults": this.faults, "names": sorted(this.names)},
                }
            )
            say(f"{who} {number} {command.name}: exit code {code}, {len(attack.faults)} faults until now")
    return attack


@pytest.mark.timeout(900)
def test_another_user_gets_nothing_of_some_commands(place: Path, pg17: Server) -> None:
    with room_of(place, pg17, None) as (room, shop):
        chosen = [DEFAULTS, shop.named("upgrade")]
        attack = attack_commands(room, shop, chosen, 1, lambda text: None, Ledger(None))
    assert attack.faults == []
    assert attack.count["links planted"] > 10 and attack.count["files tried"] > 10


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("account", [None, "nobody"])
def test_another_user_gets_nothing_of_every_command(
    place: Path, pg17: Server, account: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    ledger = Ledger.of("attacks")
    ledger.begin(account=account or "root")
    with room_of(place, pg17, account) as (room, shop):
        # The engine and the answers of TPC-DS run the interpreter of the tests, which is root's alone.
        left_out = ("query", "run fleet", "run tpcds") if account else ("query",)
        chosen = [command for command in shop.commands if command.name not in left_out]
        attack = attack_commands(room, shop, [*chosen, DEFAULTS], ROUNDS, say, ledger)
    say(attack.table())
    assert attack.faults == []
