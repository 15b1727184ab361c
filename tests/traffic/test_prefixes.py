"""The log_line_prefix of a log is recognized by its structure, whoever wrote it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from random import Random

import pytest

from pgstrata.errors import UsageError
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured
from pgstrata.traffic.logs import stderr
from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.files import find
from pgstrata.traffic.logs.line import Encoding, LogEntry, Trouble
from pgstrata.traffic.logs.recognize import recognize

PUBLIC = {
    "PostgreSQL's default": "%m [%p] ",
    "Debian": "%m [%p] %q%u@%d ",
    "RDS and Aurora": "%t:%r:%u@%d:[%p]:",
    "RDS and Aurora, newer": "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
    "Azure": "%t-%c-",
    "Cloud SQL and AlloyDB": "%m [%p]: [%l-1] db=%d,user=%u ",
    "Heroku": ' sql_error_code = %e time_ms = "%m" pid="%p" proc_start_time="%s" session_id="%c" vtid="%v" '
    'tid="%x" log_line="%l" %qdatabase="%d" connection_source="%r" user="%u" application_name="%a" ',
    "pgBadger": "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
    "pgBadger, older": "%t [%p]: [%l-1] user=%u,db=%d ",
    "pganalyze": "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "pganalyze 1": "%m [%p][%v] : [%l-1] %q[app=%a] ",
    "pganalyze 2": "%t [%p-%l] %q%u@%d ",
    "pganalyze 4": "%m [%p] %q[user=%u,db=%d,app=%a,host=%h] ",
    "pganalyze 5": "%t [%p]: [%l-1] user=%u,db=%d - PG-%e ",
    "pganalyze 6": "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "pganalyze 7": "%t [%p]: [%l-1] [trx_id=%x] user=%u,db=%d ",
    "pganalyze 9": "%m %r %u %a [%c] [%p] ",
    "pganalyze 13": "%p-%s-%c-%l-%h-%u-%d-%m ",
    "pganalyze 14": "%m [%p][%b][%v][%x] %q[user=%u,db=%d,app=%a] ",
    "pganalyze 16": "%t [%p] %q%u@%d %h ",
    "Spilo": "%t [%p]: [%l-1] %c %x %d %u %a %h ",
    "Grafana": "%m|%u|%d|%r|%p|%l|%e|%s|%v|%x|%c|%i|%P|%a|%Q|",
    "the manual": "%m [%p] %q%u@%d/%a ",
    "this page": "%m [%c] %e %q%u@%d ",
    "query ids": "%m [%p] %q[user=%u,db=%d,app=%a] [qid=%Q] ",
    "epochs": "%n [%p] %u@%d ",
    "angles": "< %m > [%p] ",
}


def filled(prefix: str, dice: Random, number: int, *, of_session: bool = True, varied: bool = True) -> str:
    """A prefix as a server fills it. varied: users, databases, addresses and applications differ."""
    process = 1000 + dice.randrange(5) * 7 if varied else 1007
    second = f"2026-08-03 10:{number // 60:02d}:{number % 60:02d}"
    values = {
        "m": f"{second}.{dice.randrange(1000):03d} UTC",
        "t": f"{second} UTC",
        "n": f"{1_769_800_000 + number}.{dice.randrange(1000):03d}",
        "s": "2026-08-03 09:59:59 UTC",
        "p": str(process),
        "c": f"66ae0000.{process:x}",
        "l": str(number + 1),
        "e": "00000",
        "v": f"3/{number + 20}" if of_session else "",
        "x": str(dice.choice([0, 0, 700 + number])),
        "Q": str(dice.choice([-7, 9]) * 10**15 + number),
        "b": "client backend" if of_session else "checkpointer",
    }
    if of_session:
        values |= {
            "u": dice.choice(["app", "my-user", "bob_x"]) if varied else "app",
            "d": dice.choice(["shop", "my-db"]) if varied else "shop",
            "a": dice.choice(["psql", "PostgreSQL JDBC Driver", "DBeaver 21.2.3 - Main"])
            if varied
            else "psql",
            "r": f"10.0.0.{dice.randrange(1, 9)}({dice.randrange(1000, 65535)})" if varied else "[local]",
            "h": dice.choice(["10.1.2.3", "::1", "db7.example.com"]) if varied else "[local]",
            "i": dice.choice(["SELECT", "INSERT", "idle in transaction"]),
        }
    else:
        prefix = prefix.partition("%q")[0]
    if "%u-%d" in prefix:  # nothing tells where such a name ends
        values |= {letter: value.replace("-", "_") for letter, value in values.items() if letter in "ud"}
    return re.sub("%([a-zA-Z])", lambda match: values.get(match[1], ""), prefix)


def lines(prefix: str, count: int, *, varied: bool, seed: int = 3) -> list[bytes]:
    dice = Random(seed)
    log_lines = []
    for number in range(count):
        of_session = number % 5 != 0
        message = (
            f"duration: 1.500 ms  statement: SELECT {number}" if of_session else "checkpoint starting: time"
        )
        begin = filled(prefix, dice, number, of_session=of_session, varied=varied)
        log_lines.append(f"{begin}LOG:  {message}\n".encode())
    return log_lines


def entries(data: list[bytes], trouble: Trouble) -> list[LogEntry]:
    recognizer = recognize(data[:200], "the log")
    assert recognizer.prefix is not None
    file = io.BytesIO(b"".join(data))
    return list(stderr.entries(file, recognizer.prefix, Clock(), Encoding(), trouble, recognizer))


@pytest.mark.parametrize("varied", [True, False], ids=["many", "one"])
@pytest.mark.parametrize("name", PUBLIC)
def test_public_prefixes_are_recognized(name: str, varied: bool) -> None:
    """Sessions, times and databases come out as they do where the prefix is named."""
    prefix = PUBLIC[name]
    data = lines(prefix, 60, varied=varied)
    trouble = Trouble()
    read_entries = entries(data, trouble)
    assert not trouble.lost and len(read_entries) == 60
    for number, entry in enumerate(read_entries):
        line = data[number].decode()
        if "%c" in prefix:
            assert re.fullmatch(r"66ae0000\.[0-9a-f]+", entry.session)
        assert entry.session in line
        assert entry.message.startswith("duration" if number % 5 else "checkpoint")
        if "%d" in prefix:
            names = _names(prefix) if varied else {"shop"}
            assert entry.database in (names if number % 5 else {""})
            assert entry.client == bool(number % 5)
    assert len({entry.session for entry in read_entries}) == (5 if varied else 1)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_comes_later_may_look_otherwise(name: str) -> None:
    """A log that begins with one user, one application and no port, and a server that starts alone."""
    prefix = PUBLIC[name]
    head = [line for line in lines(prefix, 250, varied=False) if b"checkpoint" in line]
    data = [*head, *lines(prefix, 250, varied=False), *lines(prefix, 250, varied=True, seed=4)]
    trouble = Trouble()
    read_entries = entries(data, trouble)
    assert not trouble.lost and len(read_entries) == len(data)
    assert not any(entry.damage for entry in read_entries)
    if "%d" in prefix:
        databases = {entry.database for entry in read_entries if entry.message.startswith("duration")}
        assert databases == _names(prefix)


def _names(prefix: str) -> set[str]:
    return {"shop", "my_db" if "%u-%d" in prefix else "my-db"}


def test_a_prefix_that_changes_within_the_log() -> None:
    data = [*lines("%m [%p] %q%u@%d ", 100, varied=True), *lines("%t:%r:%u@%d:[%p]:", 100, varied=True)]
    trouble = Trouble()
    read_entries = entries(data, trouble)
    assert not trouble.lost and len(read_entries) == 200
    assert {entry.database for entry in read_entries if entry.message.startswith("duration")} == {
        "shop",
        "my-db",
    }


@pytest.mark.parametrize(
    ("prefix", "what"),
    [
        ("[%p]: [%l-1] db=%d,user=%u ", "no time"),
        ("pid=%p,user=%u,db=%d,app=%a,client=%h ", "no time"),
        ("user=%u,db=%d,app=%a,client=%h ", "no time"),
        ("%m %u@%d ", "tells sessions apart"),
    ],
)
def test_a_prefix_that_leaves_out_what_is_needed_is_named(tmp_path: Path, prefix: str, what: str) -> None:
    (tmp_path / "log").write_bytes(b"".join(lines(prefix, 20, varied=True)))
    with pytest.raises(UsageError, match=what) as caught:
        find([tmp_path / "log"])
    assert "log_line_prefix" in caught.value.hint


def test_a_wrong_prefix_shows_the_line_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"".join(lines("%t [%p] %q%u@%d %h ", 20, varied=True)))
    with pytest.raises(
        UsageError, match=r"does not fit line 1 of \S+log: 2026-08-03 10:00:00 UTC \["
    ) as caught:
        find([tmp_path / "log"], prefix="%m [%c] ")
    assert "--prefix '%t [%p] %q%u@%d %h '" in caught.value.hint
    assert find([tmp_path / "log"], prefix="%t [%p] %q%u@%d %h ").files


def test_an_address_is_no_part_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"".join(lines("%m [%p] %q%u@%d %h ", 40, varied=True)))
    header = capture([tmp_path / "log"], tmp_path / "a")
    with Captured(tmp_path / "a") as captured:
        assert {database.name for database in captured.header.databases} == {"shop", "my-db"}
    assert any("recognized as '%m [%p] %q%u@%d %h '" in note for note in header.notes)


def test_users_may_hold_an_at_sign() -> None:
    data = [
        line.replace(b"my-user@", b"me@example.com@") for line in lines("%m [%p] %q%u@%d ", 60, varied=True)
    ]
    read_entries = entries(data, Trouble())
    assert {entry.database for entry in read_entries if entry.client} == {"shop", "my-db"}
