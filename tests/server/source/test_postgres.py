"""A released PostgreSQL built from its source: what it is, what it was built with, and a run on it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pgstrata.server.model import Server
from pgstrata.server.source import SHIPPED, Build, BuiltServer, build, tree_of_archive
from support_program import Program
from support_sources import debian_archive

# Once on a new machine; then it is in the cache. The limit is for machines that are busy otherwise.
pytestmark = pytest.mark.timeout(3600)

HELLO = {
    "Makefile": "MODULES = hello\nEXTENSION = hello\nDATA = hello--1.0.sql\nPG_CONFIG = pg_config\n"
    "PGXS := $(shell $(PG_CONFIG) --pgxs)\ninclude $(PGXS)\n",
    "hello.control": "default_version = '1.0'\nmodule_pathname = '$libdir/hello'\n",
    "hello--1.0.sql": "CREATE FUNCTION hello() RETURNS int LANGUAGE C AS 'MODULE_PATHNAME';\n",
    "hello.c": '#include "postgres.h"\n#include "fmgr.h"\nPG_MODULE_MAGIC;\nPG_FUNCTION_INFO_V1(hello);\n'
    "Datum hello(PG_FUNCTION_ARGS) { PG_RETURN_INT32(42); }\n",
}


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An extension of five lines."""
    folder = tmp_path_factory.mktemp("pgxs") / "hello"
    folder.mkdir()
    for name, text in HELLO.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def pg17_built(hello: Path) -> BuiltServer:
    """PostgreSQL 17 with a module and an extension; built once and then in the cache."""
    wanted = Build("o2", contrib=("pg_prewarm",), extensions=(hello,))
    return build(tree_of_archive(debian_archive(17, "trixie")), wanted)


def cflags(server: BuiltServer) -> str:
    """What the server says of the flags it was compiled with."""
    asked = [str(server.bin_dir / "pg_config"), "--cflags"]
    return subprocess.run(asked, capture_output=True, text=True).stdout


def test_the_flags_stand_in_the_binary_itself(pg17_built: BuiltServer) -> None:
    told = subprocess.run(
        [pg17_built.bin_dir / "pg_config", "--cflags"], capture_output=True, text=True
    ).stdout
    assert "-O2" in told.split() and "-g" in told.split()
    debug = subprocess.run(
        ["readelf", "--debug-dump=info", "--dwarf-depth=1", pg17_built.bin_dir / "postgres"],
        capture_output=True,
        text=True,
        errors="replace",
    ).stdout
    producers = {line.partition("):")[2] for line in debug.splitlines() if "DW_AT_producer" in line}
    assert any(" -O2" in p for p in producers) and not any(" -O0" in p for p in producers)
    assert pg17_built.record.compiler.split(",")[0].split()[-1] in next(iter(producers))


def test_the_same_tree_and_build_are_the_same_server(pg17_built: BuiltServer, hello: Path) -> None:
    said: list[str] = []
    again = build(
        tree_of_archive(debian_archive(17, "trixie")),
        Build("o2", contrib=("pg_prewarm",), extensions=(hello,)),
        say=said.append,
    )
    assert again == pg17_built and said == []


def test_a_campaign_runs_on_it_with_its_modules(
    pg17_built: BuiltServer, pg17: Server, hello: Path, pgstrata: Program, place: Path
) -> None:
    campaign = place / "built.toml"
    campaign.write_text(f"""
servers = ["pg:17"]
keep_data = false
[[variants]]
server = "tar:{debian_archive(17, "trixie")}"
build = "o2"
contrib = ["pg_prewarm"]
extensions = ["{hello}"]
label = "built"
[[workloads]]
name = "pgbench"
options = {{scale = 1, seconds = 0.5, clients = 1, modes = "prepared", warmup = 0, scripts = ["mine.sql"]}}
""")
    (place / "mine.sql").write_text("SELECT 1;\n")
    ran = pgstrata("run", campaign, "--data-dir", place / "data")
    assert ran.returncode == 0, ran.stderr
    runs = [json.loads(p.read_text()) for p in (place / "results").rglob("run.json")]
    (built,) = [run["server"]["built"] for run in runs if run["variant"] == "built"]
    assert built["create"] == ["pg_prewarm", "hello"] and built["key"] == pg17_built.key
    page = next((place / "results").rglob("*.html")).read_text()
    assert "Servers that were built from source" in page and "compiled with" in page
    shown = pgstrata("runs").stdout
    assert "built" in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o2", "o2_nofp"])
@pytest.mark.parametrize("system", ["autoconf", "meson"])
@pytest.mark.parametrize(("major", "suite"), [(15, "bookworm"), (17, "trixie"), (18, "sid")])
def test_releases_build_both_ways_with_two_sets_of_flags(
    major: int, suite: str, system: str, name: str
) -> None:
    if system == "meson" and major < 16:
        pytest.skip("meson came in 16")
    tree = tree_of_archive(debian_archive(major, suite))
    made = build(tree, SHIPPED[name].with_keys({"system": system}, Path()))
    assert ("-fno-omit-frame-pointer" in cflags(made)) == (name == "o2_nofp")
    assert made.record.system == system
