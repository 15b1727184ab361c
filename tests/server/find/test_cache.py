"""What is made in the cache is whole or not there, and what a killed pgstrata left of it goes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgstrata.files.building import building, discard, publish
from pgstrata.server.find.cache import cache_folder, clear_unfinished

MAKER = """
import sys, time
from pgstrata.files.building import building
from pgstrata.server.find.cache import cache_folder
with building(cache_folder(*sys.argv[1:], make=True) / "thing") as place:
    (place / "part").write_text("half")
    print("up", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    return place / "cache"


@pytest.mark.program
@pytest.mark.parametrize("names", [["corpus"], ["tpcds", "sf1", "answers"]])
def test_what_a_killed_maker_left_is_cleared_and_what_is_being_made_is_not(
    cache: Path, names: list[str]
) -> None:
    maker = subprocess.Popen([sys.executable, "-c", MAKER, *names], stdout=subprocess.PIPE)
    assert maker.stdout is not None
    try:
        assert maker.stdout.readline() == b"up\n"
        (left,) = cache.joinpath(*names).glob(".thing.building-*")
        assert clear_unfinished() == []
        assert (left / "part").exists()
    finally:
        maker.kill()
        maker.wait()
        maker.stdout.close()
    assert clear_unfinished() == [f"unfinished, {left}"]
    assert not left.exists()
    assert clear_unfinished() == []


def test_it_is_published_whole_and_the_first_one_stays() -> None:
    final = cache_folder("corpus", make=True) / "thing"
    for text, first in (("first", True), ("second", False)):
        with building(final) as place:
            (place / "file").write_text(text)
            assert publish(place, final) == first
    assert (final / "file").read_text() == "first"
    assert final.stat().st_mode & 0o777 == 0o755
    discard(final)
    assert [path.name for path in final.parent.iterdir()] == []


def test_nothing_stays_of_what_fails() -> None:
    final = cache_folder("corpus", make=True) / "thing"
    with pytest.raises(KeyError), building(final) as place:
        (place / "file").write_text("x")
        raise KeyError
    assert [path.name for path in final.parent.iterdir()] == []


def test_a_signal_during_the_removal_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    final = cache_folder("corpus", make=True) / "thing"
    remove, calls = shutil.rmtree, []

    def interrupted(folder: Path, **more: Any) -> None:
        calls.append(folder)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(folder, **more)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), building(final):
        pass
    assert list(final.parent.iterdir()) == []
