"""Putting a fleet up and down: what is asked for, and what is said where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.errors import ServerError, UsageError
from pgstrata.fleet.putting_up import HostLine, check_name, keeping, names, put_down, read, read_hosts
from support.fleet import engine_on_loopback
from support.program import Program


@pytest.fixture(autouse=True)
def _own_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))


def test_lists_of_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text(
        "# the rack\n\ndb1\nroot@db2:2222  # the old one\nme@[::1]:22 /opt/pgstrata/bin/python\n10.0.0.7\n"
    )
    assert read_hosts(file) == (
        HostLine(host="db1"),
        HostLine(host="db2", user="root", port=2222),
        HostLine(host="::1", user="me", python="/opt/pgstrata/bin/python"),
        HostLine(host="10.0.0.7"),
    )


@pytest.mark.parametrize("line", ["db1:x", "db1:99999", "a b c", "@db1", "db1;rm -rf /"])
def test_what_is_no_host(tmp_path: Path, line: str) -> None:
    (tmp_path / "hosts.txt").write_text(f"db0\n{line}\n")
    with pytest.raises(UsageError, match=r"line 2: .* is no host"):
        read_hosts(tmp_path / "hosts.txt")


def test_no_hosts_at_all(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("# none yet\n")
    with pytest.raises(UsageError, match="names no host"):
        read_hosts(tmp_path / "hosts.txt")
    with pytest.raises(UsageError, match="there is no list of hosts"):
        read_hosts(tmp_path / "another.txt")


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 64])
def test_what_cannot_name_a_fleet(name: str) -> None:
    with pytest.raises(UsageError, match="not a name of a fleet"):
        check_name(name)


def test_a_name_is_taken_once() -> None:
    with keeping("mine"):
        assert names() == []  # held, and nothing known of it yet
        with pytest.raises(ServerError, match="mine is up already"), keeping("mine"):
            pass
    with keeping("mine"):
        pass


def test_what_is_not_up_cannot_go_down() -> None:
    with pytest.raises(UsageError, match="no fleet called mine is up"):
        put_down("mine")


@pytest.mark.parametrize("what", ["local:2", "ssh:", "kubernetes:x", "hosts.txt"])
def test_what_is_no_way_to_put_one_up(pgstrata: Program, what: str) -> None:
    done = pgstrata("fleet", "up", what, "--without-tls")
    assert done.returncode == 2 and "not a way to put a fleet up" in done.stderr


def test_nothing_listens_on_the_network_without_tls_unless_told(place: Path, pgstrata: Program) -> None:
    done = pgstrata("fleet", "up", "slurm:")
    assert done.returncode == 2 and "without TLS" in done.stderr and "--without-tls" in done.stderr
    assert not (place / "cache" / "fleets").exists()


def test_hosts_that_do_not_answer(place: Path, pgstrata: Program) -> None:
    (place / "hosts.txt").write_text("127.0.0.1:1\n")
    done = pgstrata("fleet", "up", "ssh:hosts.txt", "--without-tls")
    assert done.returncode == 1, done.stdout
    assert "no host can be used: 127.0.0.1: it cannot be reached by ssh" in done.stderr
    assert "Traceback" not in done.stderr
    fleet = read("fleet")
    assert fleet is not None and fleet.problem and names() == []


@pytest.mark.slow
def test_two_workers_on_one_host_for_real(place: Path, pgstrata: Program) -> None:
    """The second one is refused by name, the campaign goes on with the first: here it stops at its margin."""
    file = place / "study.toml"
    file.write_text(
        'servers = ["pg:17"]\nmargin = 0.0001\ndata_dir = "data"\n[fleet]\nqualify_seconds = 2\n'
        '[[workloads]]\nname = "sysbench"\nscale = "quick"\n'
    )
    with engine_on_loopback(place, 2, one_host=True) as (address, _):
        status = pgstrata("fleet", "status", address)
        assert status.stdout.count("free") == 2, status.stdout + status.stderr
        done = pgstrata("run", file, "--fleet", address)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "takes no part: it is a second worker on the host of tcp://127.0.0.1:" in done.stderr
    # A machine that sees less than the campaign asks says what it sees.
    assert "no machine can take part" in done.stderr and "the campaign's margin is 0.01%" in done.stderr
    assert "Traceback" not in done.stderr
