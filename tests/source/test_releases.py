"""Releases by version: found, fetched once, checked; a site that is not in order, or not there."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pgstrata.errors import ServerError, UsageError
from pgstrata.source.spec import find_tree

Files = dict[str, bytes]


def release(version: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:bz2") as tar:
        text = f"AC_INIT([PostgreSQL], [{version}], [nobody])".encode()
        info = tarfile.TarInfo(f"postgresql-{version}/configure.in")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return out.getvalue()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Files, list[str]]]:
    """Files that a server on this machine publishes, and what it was asked for."""
    files: Files = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *unused: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PGSTRATA_RELEASES", f"http://127.0.0.1:{server.server_port}/source")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    try:
        yield files, asked
    finally:
        server.shutdown()
        server.server_close()


def publish(files: Files, version: str, kind: str = "sha256", content: bytes | None = None) -> None:
    name = f"/source/v{version}/postgresql-{version}.tar.bz2"
    files[name] = release(version) if content is None else content
    digest = hashlib.new(kind, release(version)).hexdigest()
    files[f"{name}.{kind}"] = f"{digest}  postgresql-{version}.tar.bz2\n".encode()


def test_a_release_is_fetched_once_and_checked(site: tuple[Files, list[str]]) -> None:
    files, asked = site
    publish(files, "9.0.23")
    tree = find_tree("release:9.0.23")
    assert (tree.version, tree.label, tree.origin) == ("9.0.23", "release9.0.23", "release:9.0.23")
    assert tree.facts["sha256"] in tree.identity
    assert len(asked) == 2
    assert find_tree("release:9.0.23") == tree
    assert len(asked) == 2


def test_old_releases_have_another_digest_beside_them(site: tuple[Files, list[str]]) -> None:
    publish(site[0], "7.4.30", "md5")
    assert find_tree("release:7.4.30").version_num == 70430


def test_a_release_that_is_not_what_its_digest_says_is_not_used(
    site: tuple[Files, list[str]], tmp_path: Path
) -> None:
    publish(site[0], "17.5", content=release("17.4"))
    with pytest.raises(ServerError, match="is not what its sha256 beside it says"):
        find_tree("release:17.5")
    assert not list((tmp_path / "cache/archives").iterdir())


def test_the_newest_release_of_a_major_version_is_found(site: tuple[Files, list[str]]) -> None:
    files, _ = site
    files["/source/"] = b'<a href="v9.4.9/">v9.4.9/</a> <a href="v9.4.26/">x</a> <a href="v9.5.1/">x</a>'
    publish(files, "9.4.26")
    assert find_tree("release:9.4").version == "9.4.26"
    with pytest.raises(ServerError, match=r"no release of 9\.3"):
        find_tree("release:9.3")


def test_a_release_that_is_not_there_is_said_to_be_missing(site: tuple[Files, list[str]]) -> None:
    with pytest.raises(ServerError, match=r"has no release 17\.99"):
        find_tree("release:17.99")
    with pytest.raises(UsageError, match="is not a version"):
        find_tree("release:newest")


def test_a_site_that_cannot_be_reached_is_said_plainly(
    site: tuple[Files, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_RELEASES", "http://127.0.0.1:9/source")
    with pytest.raises(ServerError, match="cannot be reached") as caught:
        find_tree("release:17.5")
    assert "PGSTRATA_RELEASES" in caught.value.hint


def test_an_archive_by_address_is_known_by_its_hash(
    site: tuple[Files, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    files, asked = site
    files["/source/any/pg.tar.bz2"] = release("17.5")
    address = f"{os.environ['PGSTRATA_RELEASES']}/any/pg.tar.bz2".replace("http://", "http://me:secret@")
    tree = find_tree(f"tar:{address}")
    assert tree.identity == f"sha256:{hashlib.sha256(release('17.5')).hexdigest()}"
    assert "secret" not in f"{tree.origin} {tree.facts}"
    assert find_tree(f"tar:{address}") == tree and len(asked) == 1
