"""`pgstrata serve`: what is shown, to whom, and what stays hidden; how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.cli.main import invoke
from pgstrata.watch.serve import command
from pgstrata.watch.serve.folder import KINDS, open_shown
from support.program import Program, Running
from support.runs import make_campaign
from support.tls import Authority

TOKEN = "a-secret-of-these-tests-0123456789"


class Served:
    """A server that runs beside a test."""

    def __init__(self, folder: Path, *options: str, context: ssl.SSLContext | None = None) -> None:
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        self.running = Running(folder, ["serve", "--port", "0", "--token-file", "token", *options])
        self.running.wait_for_text("?token=")
        self.url = self.running.printed.splitlines()[-1]
        self.port = urlsplit(self.url).port or 0
        self.context = context

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        host: str | None = None,
        token: str | None = TOKEN,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by small name, and content of the answer to one request."""
        kinds: dict[str, Callable[[], http.client.HTTPConnection]] = {
            "http": lambda: http.client.HTTPConnection("127.0.0.1", self.port, timeout=60),
            "https": lambda: http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=60, context=self.context
            ),
        }
        connection = kinds[urlsplit(self.url).scheme]()
        sent = {"Host": host or f"127.0.0.1:{self.port}", **headers}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def wait_for_runs(self) -> None:
        """Waits until the runs are read."""
        self.running.wait_for(lambda: json.loads(self.ask("/index.json")[2])["is_read"])

    def end(self, number: int = signal.SIGINT) -> tuple[int, float]:
        """The exit code after a signal, and how many seconds the end took."""
        begun = time.monotonic()
        self.running.process.send_signal(number)
        return self.running.end(), time.monotonic() - begun


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with one campaign and its report, a small site, and what is not to be shown."""
    place = tmp_path_factory.mktemp("served")
    make_campaign(place / "results", campaign="of <one> & two", seconds=3)
    (place / "results/of.report/tables").mkdir(parents=True)
    (place / "results/of.report/index.html").write_text("<!doctype html>the report")
    (place / "results/of.report/tables/a.csv").write_text("a,b\n")
    (place / "site/inner").mkdir(parents=True)
    (place / "site/index.html").write_text("<!doctype html>the site")
    (place / "site/compare.js").touch()
    (place / "site/.lock").write_text("hidden")
    (place / "site/.hidden.html").write_text("hidden")
    (place / "site/program.py").write_text("hidden")
    (place / "secret.html").write_text("secret")
    (place / "site/link.html").symlink_to(place / "secret.html")
    (place / "site/away").symlink_to(place)
    os.mkfifo(place / "site/pipe.html")
    return place


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """Serves that folder."""
    server = Served(folder, "--results", "results", "--site", "site")
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def ending(folder: Path) -> Iterator[Served]:
    """Serves that folder for one test, which may end it."""
    server = Served(folder, "--results", "results", "--site", "site")
    try:
        yield server
    finally:
        if server.running.process.poll() is None:
            server.running.process.kill()
            server.running.end()


def only_run(served: Served) -> str:
    return str(json.loads(served.ask("/runs.json")[2])["runs"][0]["run_id"])


@pytest.mark.program
def test_runs_reports_and_a_site_are_shown_while_they_grow(served: Served, folder: Path) -> None:
    served.wait_for_runs()
    status, headers, page = served.ask("/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert b"of &lt;one&gt; &amp; two" in page and b"of <one>" not in page
    run = only_run(served)
    status, _, page = served.ask(f"/runs/{run}")
    assert status == 200 and run.encode() in page and b"qr100" in page
    assert json.loads(served.ask(f"/runs/{run}.json")[2])["run_id"] == run
    assert json.loads(served.ask("/runs.json?campaign=other")[2])["total"] == 0
    assert served.ask("/reports/of.report/")[2] == b"<!doctype html>the report"
    assert served.ask("/reports/of.report/tables/a.csv")[1]["content-type"].startswith("text/csv")
    assert served.ask("/site/")[2] == b"<!doctype html>the site"
    status, headers, _ = served.ask("/reports/of.report")
    assert (status, urlsplit(headers["location"]).path) == (307, "/reports/of.report/")
    make_campaign(folder / "results", campaign="later", seconds=3)
    served.running.wait_for(lambda: json.loads(served.ask("/index.json")[2])["total"] == 2)
    (folder / "site/index.html").write_text("<!doctype html>anew")
    assert served.ask("/site/")[2] == b"<!doctype html>anew"
    (folder / "site/index.html").write_text("<!doctype html>the site")


@pytest.mark.program
@pytest.mark.parametrize(
    "path",
    [
        "/site/../secret.html",
        "/site/%2e%2e/secret.html",
        "/site/..%2fsecret.html",
        "/site/inner/../../secret.html",
        "/site//etc/passwd",
        "/site/link.html",
        "/site/away/secret.html",
        "/site/away/",
        "/site/.lock",
        "/site/.hidden.html",
        "/site/program.py",
        "/site/pipe.html",
        "/site/inner/",
        "/site/inner",
        "/site/index.html%00.css",
        "/reports/",
        "/reports/of.report/../../secret.html",
        "/reports/of/run.json",
        "/assets/../app.py",
        "/assets/page.html.j2",
        "/runs/..%2f..%2fsecret.html",
        "/nothing",
    ],
)
def test_nothing_else_is_shown(served: Served, path: str) -> None:
    status, headers, content = served.ask(path)
    assert status == 404, content
    assert b"secret" not in content and b"hidden" not in content
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.program
def test_requests_that_are_not_answered(served: Served) -> None:
    for token in (None, "wrong", TOKEN[:-1], "é"):
        status, headers, content = served.ask("/site/", token=token)
        assert status == 401 and b"the site" not in content
        assert headers["x-content-type-options"] == "nosniff"
    for host in ("evil.example", f"evil.example:{served.port}", f"127.0.0.1:{served.port + 1}", "127.0.0.1"):
        assert served.ask("/", host=host)[0] == 421
    for host in (f"localhost:{served.port}", f"LOCALHOST:{served.port}", f"[::1]:{served.port}"):
        assert served.ask("/", host=host)[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert served.ask("/", method)[0] == 405
    assert served.ask("/", **{"Content-Length": "5"})[0] == 413
    assert served.ask("/?x=" + "y" * 5000)[0] == 414
    with contextlib.suppress(ConnectionError):  # it may end while the rest is still being sent
        assert served.ask("/", X="y" * 1_000_000)[0] == 400
    for page in ("0", "-1", "x", "9999999999999", "%C2%B2", ""):
        assert served.ask(f"/runs?page={page}")[0] == 400


@pytest.mark.program
def test_the_token_in_the_address_becomes_a_cookie(served: Served) -> None:
    status, headers, _ = served.ask(f"/site/?token={TOKEN}", token=None)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and cookie.startswith("pgstrata-")
    assert served.ask("/site/", token=None, Cookie=cookie.partition(";")[0])[0] == 200
    assert served.ask("/site/?token=wrong-wrong-wrong", token=None)[0] == 401


@pytest.mark.program
def test_every_answer_lets_no_script_of_others_run(served: Served) -> None:
    served.wait_for_runs()
    for path in ("/", "/runs", f"/runs/{only_run(served)}", "/site/", "/nothing", "/assets/page.js"):
        _, headers, content = served.ask(path)
        policy = headers["content-security-policy"]
        scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
        assert "unsafe" not in scripts and "http" not in policy
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert b"://" not in content.replace(b"http://www.w3.org", b""), "no address of others"


@pytest.mark.program
def test_a_file_is_sent_again_only_when_it_has_changed(served: Served, folder: Path) -> None:
    stamp = served.ask("/site/")[1]["etag"]
    assert served.ask("/site/", **{"If-None-Match": stamp})[::2] == (304, b"")
    assert served.ask("/site/", "HEAD")[::2] == (200, b"")
    (folder / "site/index.html").write_text("<!doctype html>another")
    assert served.ask("/site/", **{"If-None-Match": stamp})[0] == 200
    (folder / "site/index.html").write_text("<!doctype html>the site")


@pytest.mark.program
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_whoever_is_connected(ending: Served, number: int) -> None:
    idle = [socket.create_connection(("127.0.0.1", ending.port)) for _ in range(5)]
    idle[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    ending.wait_for_runs()
    code, seconds = ending.end(number)
    assert code == 128 + number and "Traceback" not in ending.running.printed
    assert seconds < 5
    for connection in idle:
        connection.close()


@pytest.mark.program
def test_connections_without_requests_do_not_keep_others_out(served: Served) -> None:
    idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(200)]

    def answered() -> bool:
        try:
            return served.ask("/site/")[0] == 200
        except ConnectionError:
            return False  # at load this connection, too, may be closed before its request is there

    served.running.wait_for(answered, 30)
    ended = 0
    for connection in idle:
        connection.settimeout(30)
        try:
            ended += connection.recv(1) == b""
        except ConnectionResetError:
            ended += 1
        connection.close()
    assert ended == len(idle), "a connection without a request ends"


@pytest.mark.program
def test_other_addresses_are_served_by_tls_only(place: Path, pgstrata: Program) -> None:
    (place / "site").mkdir()
    (place / "site/index.html").write_text("the site")
    (place / "site/compare.js").touch()
    authority = Authority(place)
    signed = authority.sign("server", "DNS:bench.example.org")
    refused = pgstrata("serve", "--site", "site", "--address", "0.0.0.0")
    assert refused.returncode == 2 and "--certificate" in refused.stderr
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = False
    tls = ["--certificate", str(signed.certificate), "--key", str(signed.key)]
    server = Served(
        place, "--site", "site", "--address", "0.0.0.0", "--host", "bench.example.org", *tls, context=context
    )
    try:
        assert server.url.startswith("https://bench.example.org:")
        name = f"bench.example.org:{server.port}"
        assert server.ask("/site/", host=name)[::2] == (200, b"the site")
        assert server.ask("/site/", host=name, token=None)[0] == 401
        assert "Secure" in server.ask(f"/?token={TOKEN}", host=name, token=None)[1]["set-cookie"]
        assert server.ask("/site/", host=f"other.example.org:{server.port}")[0] == 421
    finally:
        server.end()


def test_what_cannot_be_served_is_one_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    (place / "site").mkdir()
    (place / "other").mkdir()
    (place / "other/letter").touch()
    (place / "open").write_text(TOKEN)
    (place / "open").chmod(0o644)
    (place / "short").write_text("short")
    (place / "short").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, words in (
            ([], "there is nothing to show"),
            (["--site", "other"], "other has files that are not of a site: letter"),
            (["--site", "nowhere"], "--site: there is no folder nowhere"),
            (["--results", "nowhere"], "--results: there is no folder nowhere"),
            (["--site", "site", "--address", "example.org"], "not an IP address"),
            (["--site", "site", "--port", "70000"], "--port 70000"),
            (["--site", "site", "--port", port], "cannot listen on 127.0.0.1"),
            (["--site", "site", "--key", "open"], "--certificate and --key go together"),
            (["--site", "site", "--certificate", "open", "--key", "open"], "other users can read it"),
            (["--site", "site", "--certificate", "short", "--key", "short"], "TLS cannot be served"),
            (["--site", "site", "--token-file", "open"], "other users can read it"),
            (["--site", "site", "--token-file", "short"], "not 20 to 200 letters"),
            (["--site", "site", "--token-file", "none"], "--token-file none"),
        ):
            assert invoke(["serve", *arguments]) == 2, arguments
            error = capsys.readouterr().err
            assert words in error and error.startswith("error: "), (arguments, error)
            assert len(error.splitlines()) == 2, "one next step"


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert invoke(["serve", "--site", "."]) == 2
    assert "pip install 'pgstrata[serve]'" in capsys.readouterr().err


PARTS = st.one_of(
    st.sampled_from(
        ["..", ".", "", "a", "a.html", "link.html", "away", "~", "%2e%2e", ".x.html", "\0", "a\n"]
    ),
    st.text(max_size=8),
)


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links that lead out of it."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.html").write_text("outside")
    root = outside / "root"
    (root / "a").mkdir(parents=True)
    (root / "a.html").write_text("inside")
    (root / "a/a.html").write_text("inside")
    (root / "link.html").symlink_to(outside / "a.html")
    (root / "away").symlink_to(outside)
    return root


@settings(max_examples=500)
@given(st.lists(PARTS, min_size=1, max_size=20))
def test_no_path_leads_outside(walled: Path, parts: list[str]) -> None:
    shown_file = open_shown(walled, "/".join(parts))
    if shown_file is not None:
        assert b"".join(shown_file.chunks()) == b"inside"
        assert shown_file.kind == KINDS[".html"]
