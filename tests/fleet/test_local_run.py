"""A run without --fleet is what it was: nothing of the engine is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.program import environment

pytestmark = pytest.mark.program

# Not pandas: DuckDB imports it where it is installed, when it takes arrays.
ENGINE = ("pgstrata.fleet.command", "distributed", "dask", "tornado", "statsmodels", "asyncssh")

CODE = """
import sys
from pgstrata.cli.main import invoke
code = invoke(sys.argv[1:])
print("loaded:", *[name for name in {engine!r} if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


def loaded(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(engine=ENGINE), *arguments],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.rpartition("loaded:")[2].strip()


def test_nothing_of_the_engine_is_imported(place: Path) -> None:
    file = place / "tiny.toml"
    file.write_text(
        'servers = ["pg:17"]\ndata_dir = "data"\n[[workloads]]\nname = "sysbench"\n'
        'options = { rows = 100, steps = ["point-query"], read_seconds = 0.5, warmup = 0, cache_seconds = 0, '
        "settle_base = 0 }\n"
    )
    assert loaded(place, "run", str(file)) == ""
    assert loaded(place, "report", "results") == ""


def test_with_a_fleet_it_is(place: Path) -> None:
    """Else the test above would look for the wrong names."""
    file = place / "tiny.toml"
    file.write_text('servers = ["pg:17"]\n[[workloads]]\nname = "insert"\nscale = "quick"\n')
    assert "pgstrata.fleet.command" in loaded(place, "run", str(file), "--dry-run", "--fleet", "3")
