"""What a core install brings and imports: all else is an extra, asked for by name when it is needed."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import pgstrata
from pgstrata.errors import BuildError, ServerError, UsageError
from pgstrata.server.find.model import Server
from pgstrata.source.tools import meson_command, ninja_command
from pgstrata.tpc import data
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.source import load_extension
from pgstrata.tpcds.schema import TPCDS
from pgstrata.tpch.schema import TPCH

ROOT = Path(__file__).parents[1]
SOURCES = Path(pgstrata.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

CORE = {
    "duckdb": "duckdb",
    "jinja2": "jinja2",
    "markupsafe": "jinja2",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "psutil": "psutil",
    "psycopg": "psycopg",
    "pydantic": "pydantic",
    "pydantic_core": "pydantic",
    "rich": "rich",
    "typer": "typer",
}
"""Modules that the program may import, and the requirement that brings each."""

EXTRAS = {
    "anyio": "mcp",
    "asyncssh": "fleet",
    "cryptography": "fleet",
    "dask": "fleet",
    "dask_jobqueue": "fleet",
    "distributed": "fleet",
    "duckdb_extension_tpcds": "tpc",
    "duckdb_extension_tpch": "tpc",
    "mcp": "mcp",
    "mesonbuild": "source",
    "pglast": "statistics",
    "starlette": "serve",
    "statsmodels": "fleet",
    "tornado": "fleet",
    "uvicorn": "serve",
    "yaml": "fleet",
}
"""Modules that only an extra brings."""

DEVELOPERS = {"datamodel_code_generator"}
"""Modules of commands for developers (`python -m pgstrata.driver.generate`)."""

DRY_RUN = frozenset(
    {"asyncio", "distributed", "duckdb", "jinja2", "numpy", "psutil", "psycopg", "rich", "ssl"}
)
"""Not imported before something is measured."""

MOST_MODULES = 260
"""Of pgstrata and other packages that a plan may import: most take half a millisecond of CPU or more."""


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=]", requirement)[0] for requirement in requirements}


def imported() -> Iterator[tuple[str, Path]]:
    """Yields the modules of others that the sources import, anywhere."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            else:
                continue
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in ("pgstrata", "_signal"):
                    yield top, path


@pytest.mark.long
def test_every_import_is_of_the_core_or_of_an_extra() -> None:
    known = CORE.keys() | EXTRAS.keys() | DEVELOPERS
    unknown = {(module, path.name) for module, path in imported() if module not in known}
    assert unknown == set()
    assert CORE.keys() <= {module for module, _ in imported()}


def test_the_requirements_are_those_that_are_imported() -> None:
    assert names(PROJECT["dependencies"]) == set(CORE.values())
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRAS.values()) <= extras.keys() - {"dev", "dist"}
    (everything,) = [requirement for requirement in extras["dev"] if requirement.startswith("pgstrata[")]
    assert set(everything[9:-1].split(",")) == extras.keys() - {"dev", "dist"}


def blocked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the program where nothing can be imported but what a core install has."""
    without = sorted({*EXTRAS, "plotly", "polars", "scipy", "pandas", "tpcgen_cli"})
    code = f"""
import sys
for module in {without!r}:
    sys.modules[module] = None
from pgstrata.cli.main import invoke
code = invoke({list(arguments)!r})
print(sorted({{name.partition('.')[0] for name in sys.modules if sys.modules[name]}}))
sys.exit(code)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.program
def test_a_plan_needs_the_core_alone_and_little_of_it(tmp_path: Path) -> None:
    campaign = tmp_path / "c.toml"
    campaign.write_text('servers = ["path:/nowhere"]\n[[workloads]]\nname = "sysbench"\nscale = "quick"\n')
    done = blocked("run", str(campaign), "--dry-run", "--results", str(tmp_path / "results"))
    assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr
    modules = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert "pydantic" in modules and not modules & DRY_RUN, modules & DRY_RUN


@pytest.mark.server
def test_a_whole_plan_imports_few_modules(pg17: Server, tmp_path: Path) -> None:
    campaign = tmp_path / "c.toml"
    assert pg17.bin_dir is not None
    servers = f'servers = ["{pg17.spec}=one", "{pg17.spec}=two"]\n'
    campaign.write_text(servers + '[[workloads]]\nname = "sysbench"\nscale = "quick"\n')
    code = f"""
import sys
from pgstrata.cli.main import invoke
code = invoke(["run", {str(campaign)!r}, "--dry-run", "--results", {str(tmp_path / "results")!r}])
print(sorted(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names))
print(sorted({{name.partition(".")[0] for name in sys.modules}}))
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "2 of 2 runs to do" in done.stdout, done.stderr
    *_, modules, tops = map(ast.literal_eval, done.stdout.splitlines()[-2:])
    assert not set(tops) & DRY_RUN
    assert len(modules) <= MOST_MODULES, "\n".join(modules)
    measuring = ("pgstrata.measure", "pgstrata.server.cluster.cluster", "pgstrata.driver.client")
    assert not [name for name in modules if name.startswith(measuring)]


@pytest.mark.program
def test_help_imports_little(tmp_path: Path) -> None:
    done = blocked("--help")
    assert done.returncode == 0, done.stderr
    modules = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert modules & CORE.keys() == {"typer"}


@pytest.mark.parametrize("benchmark", [TPCDS, TPCH], ids=["tpcds", "tpch"])
def test_what_an_extra_brings_is_asked_for_by_its_name(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"duckdb_extension_{benchmark.name}", None)
    with duckdb.connect(":memory:") as connection, pytest.raises(UsageError) as no_extension:
        load_extension(connection, benchmark)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for find in (meson_command, ninja_command):
        with pytest.raises(BuildError) as no_program:
            find()
        assert "pip install 'pgstrata[source]'" in no_program.value.hint
    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", _nothing)
    with pytest.raises(ServerError) as no_generator:
        data.folder(benchmark, 1)
    for error in (no_extension, no_generator):
        assert error.value.hint == "pip install 'pgstrata[tpc]'"


def _nothing(name: str) -> None:
    raise importlib.metadata.PackageNotFoundError(name)
