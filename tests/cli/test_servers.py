"""`pgstrata servers`: building, what is listed, why a build failed, removing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.program import Program
from support.tree import small_tree


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    return place / "cache"


def listed(pgstrata: Program) -> list[dict[str, str]]:
    ran = pgstrata("servers", "list", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    rows: list[dict[str, str]] = json.loads(ran.stdout)
    return rows


def test_a_server_is_built_listed_with_its_size_and_removed(
    cache: Path, place: Path, pgstrata: Program
) -> None:
    small_tree(place / "pg")
    ran = pgstrata("servers", "build", "src:pg", "--build", "o2", "--build", "o2_nofp")
    assert ran.returncode == 0, ran.stderr
    assert "building src17.5 with o2_nofp (-O2 -fno-omit-frame-pointer)" in ran.stderr
    rows = listed(pgstrata)
    assert [row["state"] for row in rows] == ["built", "built"]
    assert [row["build"] for row in rows] == ["o2: -O2 -g", "o2_nofp: -O2 -fno-omit-frame-pointer -g"]
    assert all(row["size"].endswith("B") and Path(row["folder"]).is_dir() for row in rows)
    removed = pgstrata("servers", "remove", "src17.5.o2_nofp")
    assert removed.stdout == "removed src17.5 o2_nofp\n"
    assert [row["build"] for row in listed(pgstrata)] == ["o2: -O2 -g"]
    assert pgstrata("servers", "remove", "src17.5").returncode == 0
    assert listed(pgstrata) == [] and not list((cache / "servers").iterdir())


def test_a_failed_build_is_told_again_and_tells_why(cache: Path, place: Path, pgstrata: Program) -> None:
    small_tree(place / "pg", main='#error "\033[2Jnothing"\n')
    for _ in range(2):
        ran = pgstrata("servers", "build", "src:pg")
        assert ran.returncode == 1 and "main.c:1" in ran.stderr and "Traceback" not in ran.stderr
    assert "servers failed" in ran.stderr and "--again" in ran.stderr
    (row,) = listed(pgstrata)
    assert (row["server"], row["state"]) == ("src17.5", "failed")
    why = pgstrata("servers", "failed", "src17.5")
    assert why.returncode == 0 and "end of the log:" in why.stdout and "main.c:1" in why.stdout
    assert "\033" not in why.stdout + ran.stderr
    assert pgstrata("servers", "remove", "src17.5").stdout == "removed failed build src17.5 o2\n"
    assert pgstrata("servers", "failed", "src17.5").returncode == 2


def test_what_cannot_be_built_is_a_users_mistake(cache: Path, place: Path, pgstrata: Program) -> None:
    small_tree(place / "pg", version="15.2")
    for message, arguments in {
        "is not built from source": ["pg:17"],
        "there is no folder": ["src:elsewhere"],
        "no build called 'o4'": ["src:pg", "--build", "o4"],
        "no such build system": ["src:pg", "--system", "cmake"],
        "cannot be built with meson": ["src:pg", "--system", "meson"],
        "has no option --with-lz5": ["src:pg", "--configure=--with-lz5"],
        "there is no program gcc-99": ["src:pg", "--cc", "gcc-99"],
        "there is no file": ["src:pg", "--patch", "none.patch"],
    }.items():
        ran = pgstrata("servers", "build", *arguments)
        assert ran.returncode == 2 and message in ran.stderr, (arguments, ran.stderr)
    assert listed(pgstrata) == []
