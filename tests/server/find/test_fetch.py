"""Fetching: versions, digests, cuts, several at once, no network, no space."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pgstrata.driver.path import find_tools
from pgstrata.errors import ServerError, UsageError
from pgstrata.server.find import acquire
from pgstrata.server.find import cache as server_cache
from pgstrata.server.find import prebuilt as cache
from pgstrata.server.find.model import Server

pytestmark = pytest.mark.program

ROOT = os.geteuid() == 0
NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
"""A proxy at the discard port, where nobody listens: as good as no network."""


def drive(
    *arguments: str | Path, umask: int = 0o022, env: Mapping[str, str] = {}
) -> tuple[int, list[dict[str, Any]]]:
    """Runs the tools; their exit code and what it said."""
    ran = subprocess.run(
        [find_tools(), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        umask=umask,
        timeout=300,
    )
    assert ran.stderr == ""
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


def archive(
    folder: Path,
    version: str,
    says: str = "",
    payload: int = 0,
    script: str = "",
    member: tarfile.TarInfo | None = None,
) -> Path:
    """An archive of a server that can only tell its version, with its digest beside it.

    script: what its program does instead; member: a further member, without content.
    """
    tells = f"echo 'postgres (PostgreSQL) {says or version}'"
    program = f"#!/bin/sh\n{script or tells}\n".encode()
    inner, outer = io.BytesIO(), folder / f"server-{version}.jar"
    with tarfile.open(fileobj=inner, mode="w:xz") as tar:
        for name, content, mode in [
            ("bin/postgres", program, 0o700),
            ("share/postgresql/sample", b"x", 0o600),
            ("lib/big", os.urandom(payload), 0o600),
        ]:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
        if member is not None:
            tar.addfile(member)
    with zipfile.ZipFile(outer, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "x")
        jar.writestr("postgres-linux.txz", inner.getvalue())
    seal(outer)
    return outer


def seal(file: Path) -> None:
    digest = hashlib.sha512(file.read_bytes()).hexdigest()
    file.with_name(f"{file.name}.sha512").write_text(digest)


@pytest.fixture
def network() -> None:
    try:
        acquire.available()
    except ServerError as error:
        pytest.skip(error.message)


def test_an_archive_is_unpacked_for_every_account(tmp_path: Path) -> None:
    jar = archive(tmp_path, "17.3")
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", jar, umask=0o077)
    assert code == 0
    folder = tmp_path / "c/servers/pg-17.3"
    assert events[-1] == {"event": "fetched", "version": "17.3", "folder": str(folder)}
    assert {(p.name, oct(p.stat().st_mode & 0o777)) for p in folder.rglob("*")} >= {
        ("bin", "0o755"),
        ("postgres", "0o755"),
        ("sample", "0o644"),
        ("postgresql", "0o755"),
    }
    about = json.loads((folder / "pgstrata.json").read_text())
    assert about["version"] == "17.3" and about["origin"]
    assert about["digest"] == "sha512:" + hashlib.sha512(jar.read_bytes()).hexdigest()


def test_a_cut_archive_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    jar = archive(tmp_path, "17.3", payload=100_000)
    jar.write_bytes(jar.read_bytes()[:50_000])
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", jar)
    assert code == 1 and events[-1]["event"] == "error" and events[-1]["kind"] == "fetch"
    assert "does not match its sha512 digest" in events[-1]["message"]
    seal(jar)  # a cut one whose digest fits must not get through either
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", jar)
    assert code == 1 and "is damaged" in events[-1]["message"]
    jar.with_name(f"{jar.name}.sha512").unlink()
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", jar)
    assert code == 1 and "no digest beside it" in events[-1]["message"]
    assert [p.name for p in (tmp_path / "c/servers").iterdir()] == [".pg-17.3.lock"]


def test_an_archive_of_another_version_is_refused(tmp_path: Path, place: Path) -> None:
    jar = archive(tmp_path, "17.3", says="16.1")
    code, events = drive("fetch", "17.3", "--cache", place / "c", "--archive", jar)
    assert code == 1 and "it calls itself" in events[-1]["message"]
    assert not (place / "c/servers/pg-17.3").exists()


@pytest.mark.skipif(not ROOT, reason="only root gives up what it may do")
def test_a_new_server_is_not_run_by_root(tmp_path: Path, place: Path) -> None:
    asks = 'id >&2; test "$(id -u)-$(id -G)" = 12345-23456 && echo "postgres (PostgreSQL) 17.3"'
    jar = archive(tmp_path, "17.3", script=asks)
    command: list[str | Path] = ["fetch", "17.3", "--cache", place / "c", "--archive", jar]
    code, events = drive(*command)
    assert code == 1 and "uid=65534" in events[-1]["message"]
    code, events = drive(*command, "--run-as", "12345:23456")
    assert code == 0, events
    shutil.rmtree(place / "c")
    # An account that cannot come here asks later, from a copy.
    (place / "c").mkdir(mode=0o700)
    assert drive(*command)[0] == 0


@pytest.mark.parametrize("run_as", ["0:0", "0:1", "root", "1", "-1:1"])
def test_an_account_with_privileges_is_refused(tmp_path: Path, run_as: str) -> None:
    command: list[str | Path] = [find_tools(), "fetch", "17.3", "--cache", tmp_path, f"--run-as={run_as}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "without privileges" in done.stderr


def test_a_server_that_holds_its_output_open_is_not_waited_for(tmp_path: Path, place: Path) -> None:
    jar = archive(tmp_path, "17.3", script="sleep 20 & exit 1")
    begun = time.monotonic()
    code, events = drive("fetch", "17.3", "--cache", place / "c", "--archive", jar)
    assert code == 1 and "does not run on this system" in events[-1]["message"]
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../../../outside", tarfile.REGTYPE, ""),
        ("/tmp/pgs-outside", tarfile.REGTYPE, ""),
        ("bin/link", tarfile.SYMTYPE, "../../outside"),
        ("bin/link", tarfile.SYMTYPE, "/etc/passwd"),
        ("bin/link", tarfile.LNKTYPE, "../outside"),
    ],
)
def test_a_member_outside_the_server_is_refused(tmp_path: Path, name: str, kind: bytes, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    jar = archive(tmp_path, "17.3", member=member)
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", jar)
    assert code == 1 and "would be outside its folder" in events[-1]["message"]
    assert [p.name for p in (tmp_path / "c/servers").iterdir()] == [".pg-17.3.lock"]
    assert not (tmp_path / "outside").exists() and not Path("/tmp/pgs-outside").exists()


def test_several_at_once_get_one_server(tmp_path: Path) -> None:
    jar = archive(tmp_path, "17.3", payload=3_000_000)
    command = [find_tools(), "fetch", "17.3", "--cache", tmp_path / "c", "--archive", jar]
    running = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE) for _ in range(6)]
    outputs = [process.communicate()[0].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 6
    assert all('"event":"fetched"' in text for text in outputs)
    assert sum('"stage":"unpack"' in text for text in outputs) == 1


def test_a_part_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    part = tmp_path / "c/servers/.pg-17.3.part/server/bin"
    part.mkdir(parents=True)
    (part / "postgres").write_text("half")
    code, _ = drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", archive(tmp_path, "17.3"))
    assert code == 0 and not (tmp_path / "c/servers/.pg-17.3.part").exists()
    assert "half" not in (tmp_path / "c/servers/pg-17.3/bin/postgres").read_text()


def test_no_space_in_the_cache(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        not ROOT
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", small]).returncode
    ):
        pytest.skip("only root can mount a small file system")
    try:
        jar = archive(tmp_path, "17.3", payload=3_000_000)
        code, events = drive("fetch", "17.3", "--cache", small, "--archive", jar)
        assert code == 1 and events[-1]["message"] == f"no space left in {small}/servers"
        assert "PGSTRATA_CACHE" in events[-1]["hint"]
        assert [p.name for p in (small / "servers").iterdir()] == [".pg-17.3.lock"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    jar = archive(tmp_path, "17.3")
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "file/c", "--archive", jar)
    assert code == 1 and str(tmp_path / "file/c") in events[-1]["message"]


def test_without_a_network_the_cache_serves(tmp_path: Path) -> None:
    for version in ("17.3", "17.10", "16.9"):
        drive("fetch", version, "--cache", tmp_path / "c", "--archive", archive(tmp_path, version))
    code, events = drive("fetch", "17", "--cache", tmp_path / "c", env=NOWHERE)
    assert code == 0 and events[-1]["version"] == "17.10"
    (offline,) = [event for event in events if event.get("stage") == "offline"]
    assert "17.10, the newest 17 in the cache" in offline["message"]
    code, events = drive("fetch", "latest", "--offline", "--cache", tmp_path / "c")
    assert code == 0 and events[-1]["version"] == "17.10"
    code, events = drive("fetch", "17.3", "--cache", tmp_path / "c", env=NOWHERE)
    assert code == 0 and len(events) == 1  # not even asked
    code, events = drive("fetch", "15", "--cache", tmp_path / "c", env=NOWHERE)
    assert code == 1 and "cannot be reached" in events[-1]["message"]
    assert "16.9, 17.3, 17.10" in events[-1]["hint"]


def test_no_network_and_nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "none"))
    monkeypatch.setattr(cache, "_unreachable", [])
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServerError, match="PostgreSQL 17 cannot be fetched") as error:
        acquire.acquire("pg:17")
    assert "HTTPS_PROXY" in error.value.hint and "nothing" in error.value.hint


@pytest.mark.usefixtures("network")
@pytest.mark.parametrize(
    ("version", "near"), [("17.3", ["17.2", "17.4"]), ("99", []), ("9.5", ["9.6."]), ("12.99", ["12."])]
)
def test_a_version_that_does_not_exist_names_its_neighbours(
    version: str, near: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    with pytest.raises(ServerError, match=f"no published archive of PostgreSQL {version}") as error:
        acquire.acquire(f"pg:{version}")
    assert error.value.hint.startswith("nearest: ")
    assert all(name in error.value.hint for name in near)


@pytest.mark.usefixtures("network")
def test_versions_reach_back_to_the_oldest() -> None:
    versions = acquire.available()
    assert versions[0].startswith("9.6.") and [v.split(".")[0] for v in versions[1:9]] == [
        str(major) for major in range(10, 18)
    ]


@pytest.fixture
def cutting_proxy() -> Iterator[str]:
    """A proxy that lets 300 kB through each tunnel and then hangs up."""
    server = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, left: int) -> None:
        try:
            while left > 0 and (data := source.recv(65536)):
                target.sendall(data)
                left -= len(data)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def tunnel(client: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(4096)
        host, _, port = request.split()[1].decode().partition(":")
        remote = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=pump, args=(client, remote, 1 << 40), daemon=True).start()
        pump(remote, client, 300_000)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=tunnel, args=(client,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    server.close()


@pytest.mark.usefixtures("network")
def test_a_download_that_is_cut_off(tmp_path: Path, cutting_proxy: str) -> None:
    code, events = drive(
        "fetch", "17", "--cache", tmp_path, env={"HTTPS_PROXY": cutting_proxy, "https_proxy": cutting_proxy}
    )
    assert code == 1 and "was cut off" in events[-1]["message"]
    assert not any(p.name.startswith("pg-") for p in (tmp_path / "servers").iterdir())


@pytest.mark.parametrize("spec", ["pg:", "pg:9", "pg:17.1.2", "pg:../17", "17", "mysql:8", "", "path:", "pg"])
def test_specs_that_name_no_server(spec: str) -> None:
    with pytest.raises(UsageError):
        acquire.check_spec(spec)


def test_specs_that_do() -> None:
    for spec in (
        "pg:17",
        "pg:17.11",
        "pg:9.6.24",
        "pg:latest",
        "path:/x",
        "dsn:postgresql://u@h/d",
        "dsn:host=/tmp",
    ):
        acquire.check_spec(spec)


def test_a_wrong_address_does_not_print_the_password() -> None:
    with pytest.raises(UsageError) as error:
        acquire.check_spec("dsn:postgresql://me:secret@host:port:x/db?nonsense=1")
    assert "secret" not in error.value.message + error.value.hint


def test_installations(tmp_path: Path, pg17: Server) -> None:
    assert pg17.bin_dir and "--prefix" in pg17.build
    same = acquire.acquire(f"path:{pg17.bin_dir.parent}")
    assert (same.version, same.version_num, same.build) == (pg17.version, pg17.version_num, pg17.build)
    assert acquire.acquire(f"path:{pg17.bin_dir}").bin_dir == pg17.bin_dir
    with pytest.raises(ServerError, match="there is no PostgreSQL in"):
        acquire.acquire(f"path:{tmp_path}")


def test_development_versions_are_counted() -> None:
    assert acquire.version_number("19devel") == 190000
    assert acquire.version_number("18beta1") == 180000
    assert acquire.version_number("9.6.24") == 90624


def test_removing_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("17.3", "17.10", "1" + "1.7"):
        drive("fetch", version, "--cache", tmp_path / "c", "--archive", archive(tmp_path, version))
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "c"))
    assert [server.version for server in acquire.fetched()] == ["11.7", "17.3", "17.10"]
    with pytest.raises(UsageError, match=r"17\.1 is not in the cache"):
        acquire.remove("17.1")
    assert acquire.remove("17") == ["17.3", "17.10"]
    assert [server.version for server in acquire.fetched()] == ["11.7"]


def test_a_server_in_use_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "c"))
    drive("fetch", "17.3", "--cache", tmp_path / "c", "--archive", archive(tmp_path, "17.3"))
    program = tmp_path / "c/servers/pg-17.3/bin/running"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as running:
        try:
            with pytest.raises(ServerError, match=f"in use by process {running.pid}"):
                acquire.remove("17.3")
        finally:
            running.kill()


def test_a_cache_closed_to_the_account_of_servers(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ROOT:
        pytest.skip("only root runs servers as another account")
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(server_cache, "SHARED", place / "shared")
    monkeypatch.delenv("PGSTRATA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed))
    assert acquire.cache_dir() == place / "shared"
    monkeypatch.setenv("PGSTRATA_CACHE", str(closed / "named"))
    assert pg17.bin_dir
    shutil.copytree(pg17.bin_dir.parent, closed / "named/servers" / pg17.bin_dir.parent.name)
    messages: list[str] = []
    server = acquire.acquire(pg17.spec, say=messages.append)
    assert server.bin_dir == place / "shared/servers" / pg17.bin_dir.parent.name / "bin"
    assert any("closed to the account" in text for text in messages)
    assert acquire.acquire(pg17.spec) == server


def test_it_is_said_once_that_a_version_is_looked_for(pg17: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One `upgrade` said it three times of each of its servers."""
    monkeypatch.setattr(cache, "_resolved", set())
    messages: list[str] = []
    for _ in range(2):
        assert cache.fetch("17", messages.append).name == "pg-" + pg17.version
    assert messages == ["looking for PostgreSQL 17"]
