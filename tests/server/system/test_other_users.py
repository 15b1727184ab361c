"""What another user of the machine prepares for pgstrata: nothing of it is believed, followed or deleted.

Every attack is really made by another user, with root as the victim.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgstrata.errors import OwnershipError, StoreError
from pgstrata.fulltext.corpus.build import Synthetic, synthetic
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import server_account
from pgstrata.server.system.guard import MARKER, clear_leftovers
from pgstrata.server.system.running import processes_of
from pgstrata.store import Results
from pgstrata.tpc import data
from pgstrata.tpcds.schema import TPCDS
from support.program import Program
from support.users import STRANGER, needs_root, shell_as

pytestmark = [needs_root, pytest.mark.program]

PLAIN = Resolved("plain")
RUN = "20260101T000000-89abcdef"


class Victim:
    """A folder that somebody needs, and a process that works in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "precious").write_text("mine")
        self.process = subprocess.Popen(["sleep", "600"], cwd=folder)

    def marker(self) -> str:
        """One that names the folder and the process wherever a marker can name any."""
        facts = {
            "created": True,
            "owner": 1,
            "data": str(self.folder),
            "elsewhere": str(self.folder),
            "sockets": str(self.folder),
            "programs": "/",
            "postmaster": self.process.pid,
            "groups": [str(self.folder)],
            "segments": [f"../..{self.folder}/precious"],
        }
        return json.dumps(facts)

    def is_unharmed(self) -> bool:
        return self.process.poll() is None and (self.folder / "precious").read_text() == "mine"


@pytest.fixture
def victim(place: Path) -> Iterator[Victim]:
    new_victim = Victim(place / "victim")
    yield new_victim
    new_victim.process.kill()
    new_victim.process.wait()


@pytest.fixture
def shared(place: Path) -> Path:
    """As /tmp and /var/tmp are."""
    folder = place / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def pgbench(server: Server, *more: str | Path) -> list[str]:
    """A campaign of a second."""
    options = {
        "scale": "1",
        "seconds": "1",
        "builtin": "['select-only']",
        "modes": "['simple']",
        "clients": "[1]",
    }
    sets = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    return ["run", "--server", server.spec, "--workload", "pgbench", *sets, *map(str, more)]


ATTACKS = {
    "a folder of the attacker's": 'mkdir -m 777 "$1"; mkdir -m 777 "$1/$2"; printf %s "$3" > "$1/$2/$4"',
    "a closed folder of the attacker's": (
        'mkdir "$1"; mkdir "$1/$2"; printf %s "$3" > "$1/$2/$4"; chmod 755 "$1" "$1/$2"; chmod 644 "$1/$2/$4"'
    ),
    "a link": (
        'mkdir "$1.real" "$1.real/$2"; printf %s "$3" > "$1.real/$2/$4"; chmod -R a+rX "$1.real"; '
        'ln -s "$1.real" "$1"'
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_prepared_folder_for_clusters_is_refused(
    attack: str, place: Path, shared: Path, victim: Victim, pgstrata: Program, pg17: Server
) -> None:
    """The default place has a name that everybody can foresee, in a folder that everybody may write to."""
    shell_as(STRANGER, ATTACKS[attack], shared / "pgstrata-root", RUN, victim.marker(), MARKER)
    done = pgstrata(*pgbench(pg17, "--no-report"), TMPDIR=str(shared), LOGNAME="root")
    assert victim.is_unharmed()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error: the folder for clusters" in done.stderr
    assert f"uid {STRANGER}" in done.stderr or "is a symbolic link" in done.stderr
    assert "data_dir in the campaign, or --data-dir" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_ones_own_that_everybody_may_write_to_is_refused(
    place: Path, victim: Victim, pgstrata: Program, pg17: Server
) -> None:
    (place / "data").mkdir()
    (place / "data").chmod(0o777)
    shell_as(STRANGER, 'mkdir "$1"; printf %s "$2" > "$1/$3"', place / "data" / RUN, victim.marker(), MARKER)
    done = pgstrata("run", "--server", pg17.spec, "--workload", "pgbench", "--data-dir", place / "data")
    assert victim.is_unharmed()
    assert done.returncode == 1
    assert f"chmod go-w {place / 'data'}" in done.stderr


def test_only_markers_of_ones_own_are_believed(place: Path, victim: Victim) -> None:
    """The folder has been safe only since a moment ago: what others have put there is still in it."""
    root = place / "root"
    root.mkdir()
    root.chmod(0o1777)
    theirs = (
        'mkdir "$1/theirs"; printf %s "$2" > "$1/theirs/$3"; mkfifo "$1/pipe"; ln -s "$1/theirs" "$1/link"'
    )
    shell_as(STRANGER, theirs, root, victim.marker(), MARKER)
    for name in ("owner", "mode", "link", "hard", "large", "pipe", "open"):
        (root / f"marker-{name}").mkdir()
        (root / f"marker-{name}" / "file").write_text("")
    (root / "marker-open").chmod(0o777)
    content = {name: root / f"marker-{name}" / MARKER for name in ("owner", "mode", "large", "open")}
    for file in content.values():
        file.write_text(victim.marker())
    os.chown(content["owner"], STRANGER, STRANGER)
    content["mode"].chmod(0o666)
    content["large"].write_text(victim.marker() + " " * (1 << 17))
    (place / "marker").write_text(victim.marker())
    (root / "marker-link" / MARKER).symlink_to(place / "marker")
    (root / "marker-hard" / MARKER).hardlink_to(place / "marker")
    os.mkfifo(root / "marker-pipe" / MARKER)
    before = sorted(root.rglob("*"))
    root.chmod(0o755)
    assert clear_leftovers(root) == []
    assert sorted(root.rglob("*")) == before
    assert victim.is_unharmed()


def test_a_marker_is_believed_only_about_its_own_folder(place: Path, victim: Victim) -> None:
    """Even one of our own: whatever it names elsewhere stays."""
    folder = place / "root" / RUN
    (folder / "data").mkdir(parents=True)
    (folder / MARKER).write_text(victim.marker() + "\n")
    (place / "pgs-01234567").symlink_to(victim.folder)
    with (folder / MARKER).open("a") as marker:
        marker.write(json.dumps({"sockets": str(place / "pgs-01234567")}) + "\n")
    assert len(clear_leftovers(place / "root")) == 1
    assert not folder.exists()
    assert victim.is_unharmed()


def test_links_in_what_is_deleted_are_not_followed(place: Path, victim: Victim) -> None:
    account = server_account()
    assert account
    folder = place / "root" / RUN
    (folder / "data").mkdir(parents=True)
    (folder / MARKER).write_text('{"created": true}\n')
    os.chown(folder / "data", account.uid, account.gid)
    shell_as(
        account.uid, 'ln -s "$2" "$1/base"; mkdir "$1/d"; ln -s "$2" "$1/d/e"', folder / "data", victim.folder
    )
    clear_leftovers(place / "root")
    assert not folder.exists()
    assert victim.is_unharmed()


@pytest.mark.parametrize("kind", ["nobody's", "recorded", "its own"])
def test_only_processes_of_the_cluster_are_ended(place: Path, kind: str) -> None:
    """Whoever works in a data folder need not be its server, and a number may have been given out again."""
    account = server_account()
    assert account
    folder = place / "root" / RUN
    data = folder / "data"
    data.mkdir(parents=True)
    os.chown(data, account.uid, account.gid)
    environment = {"PGDATA": os.path.realpath(data)} if kind == "its own" else {}
    who = {"user": account.uid, "group": account.gid, "extra_groups": []}
    process = subprocess.Popen(["sleep", "600"], cwd=data, env={"PATH": "/bin", **environment}, **who)  # type: ignore[call-overload]
    try:
        facts = {"created": True, "programs": "/nowhere/bin"}
        if kind == "recorded":
            facts["postmaster"] = [process.pid, 1]
        (folder / MARKER).write_text(json.dumps(facts) + "\n")
        leftovers = clear_leftovers(place / "root")
        assert ("1 processes ended" in leftovers[0]) == (kind == "its own")
        if kind == "its own":
            assert process.wait(10) == -signal.SIGKILL
        else:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_nothing_can_be_seen_or_reached_in_a_cluster(place: Path, pg17: Server) -> None:
    with Cluster(pg17, PLAIN, place / "c") as cluster:
        cluster.create()
        cluster.start()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (place / "c").iterdir()}
        assert modes["data"] == modes["run"] == 0o700
        assert modes[MARKER] & 0o077 == 0
        assert modes["server.log"] & 0o022 == 0
        assert stat.S_IMODE((place / "c").stat().st_mode) == 0o711
        for path in ("", "/data", "/run"):
            with pytest.raises(subprocess.CalledProcessError):
                shell_as(STRANGER, 'ls "$1" 2>/dev/null', f"{place / 'c'}{path}")


def test_root_writes_through_no_link_in_a_data_folder(place: Path, pg17: Server) -> None:
    """The data folder is the account's, which is not trusted with what is root's."""
    account = server_account()
    assert account
    (place / "precious").write_text("mine")
    with Cluster(pg17, PLAIN, place / "c", tcp=True) as cluster:
        cluster.create()
        shell_as(account.uid, 'ln -sf "$2" "$1/pgstrata.conf"', cluster.data_folder.path, place / "precious")
        cluster.start()
        assert (place / "precious").read_text() == "mine"
        assert (place / "precious").stat().st_uid == 0
        assert not (cluster.data_folder.path / "pgstrata.conf").is_symlink()
        with cluster.connect() as session:
            assert session.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        cluster.stop()
        assert processes_of(cluster.data_folder.path, pg17.bin_dir) == []


def test_a_claimed_folder_must_be_ones_own(place: Path, shared: Path, pg17: Server) -> None:
    shell_as(STRANGER, 'mkdir "$1"', shared / "c")
    with Cluster(pg17, PLAIN, shared / "c") as cluster, pytest.raises(OwnershipError, match="belongs to"):
        cluster.create()
    assert (shared / "c").is_dir()


# --- other places that one user can prepare for another ---------------------------------------


@pytest.mark.parametrize("prepared", ["the cache", "servers", "the server"])
def test_servers_that_another_user_has_put_into_the_cache_are_not_run(
    prepared: str, place: Path, pgstrata: Program, pg17: Server
) -> None:
    home = place / "home"
    folder = home / "servers" / f"pg-{pg17.version}"
    (folder / "bin").mkdir(parents=True)
    (folder / "pgstrata.json").write_text(json.dumps({"version": pg17.version}))
    for program in ("postgres", "initdb"):
        (folder / "bin" / program).write_text(f"#!/bin/sh\ntouch {place}/was-run\n")
        (folder / "bin" / program).chmod(0o755)
    theirs = {"the cache": home, "servers": home / "servers", "the server": folder}[prepared]
    os.chown(theirs, STRANGER, STRANGER)
    done = pgstrata(*pgbench(pg17, "--no-report"), PGSTRATA_CACHE=str(home))
    assert not (place / "was-run").exists()
    assert done.returncode == 1
    assert f"{theirs} belongs to uid {STRANGER}" in done.stderr
    assert "name another place with PGSTRATA_CACHE" in done.stderr


def test_data_that_others_may_have_put_into_the_cache_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    uses: dict[str, Callable[[], object]] = {
        "tpcds": lambda: data.about(TPCDS, 0.01),
        "corpus": lambda: synthetic(Synthetic(messages=10, seed=1)),
    }
    for name, use in uses.items():
        folder = place / "cache" / name
        folder.mkdir(parents=True)
        use()
        folder.chmod(0o777)
        with pytest.raises(OwnershipError, match=f"the cache {folder} can be written by other users"):
            use()


@pytest.mark.parametrize("place_of", ["results", "results/pgbench"])
def test_a_prepared_results_folder_is_refused(
    place_of: str, place: Path, shared: Path, victim: Victim, pgstrata: Program, pg17: Server
) -> None:
    """Whose lock file led elsewhere emptied the file there."""
    prepared = shared / place_of
    prepared.parent.mkdir(exist_ok=True)
    script = 'mkdir -m 777 "$1"; ln -s "$2/precious" "$1/.lock"'
    prepared.parent.chmod(0o1777)
    shell_as(STRANGER, script, prepared, victim.folder)
    prepared.parent.chmod(0o1777 if prepared.parent == shared else 0o755)
    results = shared / "results"
    done = pgstrata(
        *pgbench(pg17, "--no-report", "--results", results, "--name", "pgbench", "--data-dir", "data")
    )
    assert victim.is_unharmed()
    assert done.returncode == 1
    assert f"the results folder {prepared} belongs to uid {STRANGER}" in done.stderr
    assert "name another one with --results" in done.stderr


def test_a_link_in_the_place_of_a_lock_is_not_followed(place: Path, victim: Victim) -> None:
    (place / "results").mkdir()
    (place / "results" / ".lock").symlink_to(victim.folder / "precious")
    with pytest.raises(StoreError, match="cannot lock the results"), Results(place / "results").lock():
        pass
    assert victim.is_unharmed()


def test_a_prepared_folder_for_a_report_is_refused(
    place: Path, shared: Path, victim: Victim, pgstrata: Program, pg17: Server
) -> None:
    assert pgstrata(*pgbench(pg17, "--no-report", "--data-dir", "data")).returncode == 0
    script = 'mkdir "$1" "$1/tables"; ln -s "$2/precious" "$1/plotly.min.js"'
    shell_as(STRANGER, script, shared / "report", victim.folder)
    done = pgstrata("report", "results", "--out", shared / "report")
    assert victim.is_unharmed()
    assert done.returncode == 1
    assert f"belongs to uid {STRANGER}" in done.stderr
    assert "--out" in done.stderr


def test_nothing_that_pgstrata_makes_can_be_written_by_others(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    former = os.umask(0)
    try:
        done = pgstrata(*pgbench(pg17, "--data-dir", "data"))
    finally:
        os.umask(former)
    assert done.returncode == 0, done.stderr
    paths = [
        path for folder in ("data", "results") for path in [place / folder, *(place / folder).rglob("*")]
    ]
    assert len(paths) > 10
    assert [path for path in paths if path.lstat().st_mode & 0o022] == []
