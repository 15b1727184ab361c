"""Data that was loaded once is not loaded again: in repeats, other configs and later campaigns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.interleaved import text
from support.kills import KILL, ONE, Room, end_when, run

KEEP = "keep_loaded = true\n"


@pytest.fixture
def room(place: Path) -> Iterator[Room]:
    with Room(place) as new_room:
        yield new_room


def campaign(room: Room, name: str, content: str) -> Path:
    file = room.place / f"{name}.toml"
    file.write_text(f'name = "{name}"\n{content}')
    return file


def kept(room: Room) -> list[str]:
    """What lies where data is kept, hidden or not."""
    return sorted(path.name for path in (room.cache / "loaded").glob("*"))


@pytest.mark.timeout(400)
def test_data_is_loaded_once_for_repeats_and_for_a_later_comparison(room: Room, pg17: Server) -> None:
    assert pg17.bin_dir is not None
    server = f"path:{pg17.bin_dir.parent}"
    compared = text(server, ["point-query"], seconds=1, more=KEEP)
    load = compared.partition("[[workloads]]")[2]
    single = f'data_dir = "data"\nservers = ["{server}"]\nrepeats = 2\n{KEEP}[[workloads]]{load}'
    output = run(room, campaign(room, "first", single), "--dry-run")
    assert "1 of 2 runs begins with data that is loaded and kept" in output
    run(room, campaign(room, "first", single), "--no-report")
    first, second = Results(room.results).runs()
    (key,) = kept(room)
    assert (first.record.loaded, second.record.loaded) == (None, key)
    assert [step.name for step in first.steps][-1:] == [step.name for step in second.steps]
    assert second.steps[0].operations > 0

    output = run(room, campaign(room, "later", compared), "--dry-run")
    assert output.count("to do, data kept") == 2
    assert "data kept" not in run(
        room, campaign(room, "more", compared.replace("rows = 500", "rows = 501")), "--dry-run"
    )
    run(room, campaign(room, "later", compared), "--no-report")
    a, b = (stored_run for stored_run in Results(room.results).runs() if stored_run.campaign == "later")
    assert a.record.loaded == b.record.loaded == key
    assert [step.name for step in a.steps] == [step.name for step in b.steps] == ["point-query"]
    running = room.start("data", "list")
    assert running.wait(60) == 0
    assert key[:8] in room.printed
    running = room.start("data", "remove", key[:8])
    assert running.wait(60) == 0
    assert kept(room) == []


@pytest.mark.timeout(400)
def test_kill_9_while_data_is_kept_leaves_nothing_half(room: Room, pg17: Server) -> None:
    assert pg17.bin_dir is not None
    file = campaign(room, "c", KEEP + ONE.replace("{server}", f"path:{pg17.bin_dir.parent}"))
    end_when(room, file, KILL, lambda: any(name.startswith(".") for name in kept(room)))
    run(room, file, "--no-report")
    (key,) = kept(room)
    assert not key.startswith(".")
    assert [stored_run.record.loaded for stored_run in Results(room.results).runs()] == [None]
    run(room, file, "--no-report", "--fresh")
    assert key in [stored_run.record.loaded for stored_run in Results(room.results).runs()]
