"""A released PostgreSQL built from its source: what it is, what it was built with, and a run on it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import SHIPPED, Build
from pgstrata.source.build import BuiltServer, build
from pgstrata.source.tree import tree_of_archive
from support.built import QUICK, quick_build
from support.program import Program
from support.sources import debian_archive

# For the first that asks for it, who builds it.
pytestmark = pytest.mark.timeout(3600)

CLANG = next(filter(shutil.which, ("clang", *(f"clang-{version}" for version in range(22, 10, -1)))), "")


def cflags(server: BuiltServer) -> list[str]:
    """What the server says of the flags it was compiled with; meson's builds tell them apart."""
    asked = [str(server.bin_dir / "pg_config"), "--cflags"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.split()


def producers(server: BuiltServer) -> set[str]:
    """Compilers and flags as the debug data of the binary has them, those of the C library's start apart."""
    debug = subprocess.run(
        ["readelf", "--debug-dump=info", "--dwarf-depth=1", str(server.bin_dir / "postgres")],
        capture_output=True,
        text=True,
        errors="replace",
    ).stdout
    all_producers = {line.partition("):")[2] for line in debug.splitlines() if "DW_AT_producer" in line}
    return {producer for producer in all_producers if "GNU AS" not in producer}


def test_the_flags_stand_in_the_binary_itself(pg17_built: BuiltServer) -> None:
    flags = cflags(pg17_built)
    assert QUICK in flags and "-g" in flags and "-O2" not in flags
    compiled = producers(pg17_built)
    assert compiled and all(f" {QUICK}" in producer and " -O2" not in producer for producer in compiled)
    assert all(pg17_built.record.compiler.split(",")[0].split()[-1] in producer for producer in compiled)


def test_the_same_tree_and_build_are_the_same_server(
    pg17_built: BuiltServer, hello: Path, pgvector: Path
) -> None:
    messages: list[str] = []
    again = build(
        tree_of_archive(debian_archive(17, "trixie")), quick_build(hello, pgvector), say=messages.append
    )
    assert again == pg17_built and messages == []


def test_a_campaign_runs_on_it_with_its_modules(
    pg17_built: BuiltServer, built_variant: str, pg17: Server, pgstrata: Program, place: Path
) -> None:
    campaign = place / "built.toml"
    campaign.write_text(f"""
servers = ["pg:17"]
keep_data = false
{built_variant}
[[workloads]]
name = "pgbench"
options = {{scale = 1, seconds = 0.5, clients = 1, modes = "prepared", warmup = 0, scripts = ["mine.sql"]}}
""")
    (place / "mine.sql").write_text("SELECT 1;\n")
    ran = pgstrata("run", campaign, "--data-dir", place / "data")
    assert ran.returncode == 0, ran.stderr
    runs = [json.loads(p.read_text()) for p in (place / "results").rglob("run.json")]
    (built,) = [run["server"]["built"] for run in runs if run["variant"] == "built"]
    assert built["create"] == ["pg_prewarm", "hello", "vector"] and built["key"] == pg17_built.key
    page = next((place / "results").rglob("*.html")).read_text()
    assert "Servers that were built from source" in page and "compiled with" in page
    shown = pgstrata("runs").stdout
    assert "built" in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o2", "o2_nofp"])
@pytest.mark.parametrize("system", ["autoconf", "meson"])
@pytest.mark.parametrize(
    ("major", "suite"),
    [(13, "bullseye"), (15, "bookworm"), (17, "trixie"), (18, "sid"), (19, "experimental")],
)
def test_releases_build_both_ways_with_two_sets_of_flags(
    major: int, suite: str, system: str, name: str
) -> None:
    if system == "meson" and major < 16:
        pytest.skip("meson came in 16")
    tree = tree_of_archive(debian_archive(major, suite))
    built = build(tree, SHIPPED[name].with_keys({"system": system}, Path()))
    assert built.record.system == system
    kept = name == "o2_nofp"
    assert ("-fno-omit-frame-pointer" in cflags(built)) == kept
    compiled = producers(built)
    assert compiled and all(" -O2" in producer for producer in compiled)
    assert all((" -fno-omit-frame-pointer" in producer) == kept for producer in compiled)
    # What the judge tells apart stands in the binaries, too.
    assert all((" -fPIC" in producer) == ("-Db_staticpic=true" in built.configured) for producer in compiled)


@pytest.mark.slow
@pytest.mark.skipif(not CLANG, reason="apt-get install clang")
def test_clang_says_with_which_flags_it_compiled() -> None:
    built = build(tree_of_archive(debian_archive(17, "trixie")), Build("clang", cc=CLANG))
    assert built.record.compiler.startswith(("clang", "Debian clang"))
    compiled = producers(built)
    assert compiled and all("clang" in producer and " -O2" in producer for producer in compiled)
