"""Files of users: endless ones, silent ones, folders, links in a circle."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgstrata.errors import UsageError
from pgstrata.files import user_files


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_files, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(user_files, "TOTAL_SECONDS", 1.5)


def refused(path: Path, **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        user_files.read_text(path, "campaign file", **more)
    return caught.value.message


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("grün\n" * 1000)
    assert user_files.read_text(file, "file") == "grün\n" * 1000
    assert user_files.read_bytes(Path("/dev/null"), "file") == b""


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_an_endless_file_is_read_up_to_its_limit(device: str) -> None:
    assert refused(Path(device)) == f"the campaign file {device} has more than 1 MiB"


def test_a_file_at_the_limit_is_taken_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 2048)
    assert len(user_files.read_text(file, "file", most=2048)) == 2048
    file.write_bytes(b"x" * 2049)
    assert "has more than 2 KiB" in refused(file, most=2048)


def test_a_fifo_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "says nothing for" in refused(tmp_path / "fifo")


def test_a_pipe_is_read_to_its_end_also_when_it_is_written_late(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    text = "a = 1\n" * 50_000  # more than a pipe holds at once

    def late() -> None:
        fifo.write_text(text)

    writer = threading.Timer(0.1, late)
    writer.start()
    assert user_files.read_text(fifo, "campaign file") == text
    writer.join()


@pytest.mark.program
def test_a_pipe_that_trickles_for_ever_is_left(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["sh", "-c", "while sleep 0.1; do echo x; done"], stdout=subprocess.PIPE, start_new_session=True
    ) as trickle:
        assert trickle.stdout is not None
        message = refused(Path(f"/dev/fd/{trickle.stdout.fileno()}"))
        trickle.kill()
    assert "does not come to an end" in message


@pytest.mark.program
def test_an_endless_pipe_is_read_up_to_its_limit() -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        assert yes.stdout is not None
        assert "has more than 1 MiB" in refused(Path(f"/dev/fd/{yes.stdout.fileno()}"))
        yes.kill()


def _missing(folder: Path) -> Path:
    return folder / "none"


def _circle(folder: Path) -> Path:
    (folder / "circle").symlink_to(folder / "circle")
    return folder / "circle"


def _latin(folder: Path) -> Path:
    (folder / "latin").write_bytes("a\nü\n".encode("latin-1"))
    return folder / "latin"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_missing, "there is no campaign file"),
        (lambda folder: folder, "is a folder, not a campaign file"),
        (_circle, "cannot be read: Too many levels of symbolic links"),
        (lambda folder: folder / ("x" * 300), "cannot be read: File name too long"),
        (lambda folder: Path(f"{folder}/a\0b"), "it holds a NUL"),
        (_latin, "is not UTF-8 text (line 2)"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(
    tmp_path: Path, make: Callable[[Path], Path], message: str
) -> None:
    assert message in refused(make(tmp_path))


def test_paths_that_no_path_can_be() -> None:
    with pytest.raises(UsageError, match="knows no such user"):
        user_files.user_path("~no-such-user/x")
    with pytest.raises(UsageError, match="holds a NUL"):
        user_files.user_path("a\0b")


def test_links_in_a_circle_have_no_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lead in a circle"):
        user_files.real_path(_circle(tmp_path) / "bin")


def test_what_is_shown_obeys_no_terminal() -> None:
    assert user_files.shown("a\x1b[31m\nb\0") == "a\\x1b[31m\\nb\\x00"
    assert user_files.shown("x" * 1000, 10) == "x" * 10 + "…"


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_bytes(b"\xef\xbb\xbfSELECT 1;\r\n")
    assert user_files.read_text(file, "script") == "SELECT 1;\r\n"
