"""Pages in a real browser: what they show, what they ask for, what their scripts do."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

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
        own_options = [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command = [str(BROWSER), *OPTIONS, NOBODY, *own_options, *options, f"{page.as_uri()}#{fragment}"]
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


class Walk:
    """A page in a browser that is steered: keys are pressed, and scripts of the test look at what happened.

    The browser speaks its DevTools protocol over two pipes. url: the page that is opened first.
    """

    def __init__(self, url: str, *, width: int = 1200, height: int = 900) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="pgs-browser", ignore_cleanup_errors=True)
        theirs, self._to = os.pipe()
        self._from, also_theirs = os.pipe()
        options = [o for o in OPTIONS if not o.startswith("--virtual-time")]
        command = [str(BROWSER), *options, NOBODY, f"--user-data-dir={self._profile.name}"]
        command += ["--remote-debugging-pipe", f"--window-size={width},{height}", "about:blank"]
        # The protocol is spoken on descriptors 3 and 4.
        shell = ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{also_theirs}', "bash", *command]
        self._log = Path(self._profile.name) / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                shell, pass_fds=(theirs, also_theirs), stdout=subprocess.DEVNULL, stderr=log
            )
        os.close(theirs)
        os.close(also_theirs)
        self._asked, self._rest, self._session = 0, b"", ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.open(url)

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *unused: object) -> None:
        self._process.kill()
        self._process.wait(60)
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def open(self, url: str) -> None:
        """Goes to a page and waits until it is there."""
        self.ask("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 60) -> None:
        """Waits until an expression is true."""
        until = time.monotonic() + seconds
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < until, f"never true: {script}"
            time.sleep(0.05)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Presses a key and lets it go."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def tab_to(self, selector: str, most: int = 60) -> None:
        """Presses Tab until the focus is on this element."""
        for _ in range(most):
            self.press("Tab", 9)
            if self.run(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"{most} times Tab do not lead to {selector}")

    def console(self) -> list[str]:
        """What the page has written to the console."""
        return [line for line in self._log.read_text(errors="replace").splitlines() if "CONSOLE" in line]

    def ask(self, method: str, **parameters: Any) -> Any:
        """Asks the browser for something; returns its answer."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + 120
        while True:
            reply, mark, rest = self._rest.partition(b"\0")
            if not mark:
                assert select.select([self._from], [], [], max(0, until - time.monotonic()))[0], method
                more = os.read(self._from, 1 << 20)
                assert more, self._log.read_text(errors="replace")
                self._rest += more
                continue
            self._rest = rest
            answer = json.loads(reply)
            if answer.get("id") == self._asked:
                assert "error" not in answer, answer
                return answer["result"]
