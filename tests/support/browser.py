"""Pages in a real browser: what they show, what they ask for, what their scripts do."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Alone with the page: the browser's own errands (updates, accounts, the time) find nobody.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
)
NOBODY = "--host-resolver-rules=MAP * ~NOTFOUND"
TALL = 14_000

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs chromium: apt-get install chromium to look at reports in a browser"
)


def browse(
    page: Path, *options: str, width: int = 1400, height: int = TALL, fragment: str = ""
) -> subprocess.CompletedProcess[str]:
    """Opens the page at the part that `fragment` names; the console goes to standard error, the DOM to
    standard output."""
    with tempfile.TemporaryDirectory(prefix="pgs-browser", ignore_cleanup_errors=True) as profile:
        own = [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command = [str(BROWSER), *OPTIONS, NOBODY, *own, *options, f"{page.as_uri()}#{fragment}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def requested(net_log: Path) -> set[str]:
    """Every URL that the page asked for, from the browser's own log of its network.

    What the browser asks for by itself (updates, the time) has no page as its initiator.
    """
    text = net_log.read_text(errors="replace")
    try:
        log = json.loads(text)
    except ValueError:  # the log lacks its end where the browser was quick to leave
        log = json.loads(text.rstrip().rstrip(",") + "]}")
    asked = [e["params"] for e in log["events"] if isinstance(e.get("params"), dict)]
    return {
        str(p["url"]) for p in asked if "url" in p and p.get("initiator", "not an origin") != "not an origin"
    }
