"""pgvector built against servers: recall that is what it says, rates beside it, and servers without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.source.build import BuiltServer
from pgstrata.store import Results
from support.program import Program
from support.sources import debian_archive

# For the first that asks for it, who builds it.
pytestmark = pytest.mark.timeout(3600)


VARIANT = '[[variants]]\nserver = "tar:{archive}"\nlabel = "{label}"\nextensions = ["{pgvector}"]\n'


def campaign(place: Path, tables: str, options: str, keys: str = "") -> Path:
    file = place / "campaign.toml"
    file.write_text(f'{keys}\n{tables}[[workloads]]\nname = "vector"\noptions = {{ {options} }}\n')
    return file


@pytest.mark.parametrize("distance", ["l2", "cosine", "ip"])
def test_an_index_that_looks_everywhere_finds_every_true_neighbour(
    place: Path, pgstrata: Program, pg17_built: BuiltServer, built_variant: str, distance: str
) -> None:
    options = (
        'rows = 1000, dimensions = 8, clusters = 5, queries = 20, indexes = "ivfflat", '
        f'distance = "{distance}", '
        "recall = [0.5, 0.999], seconds = 0.5, warmup = 0"
    )
    done = pgstrata("run", campaign(place, built_variant, options))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    assert run.record.extensions.keys() == {"hello", "pg_prewarm", "vector"}
    assert run.record.extensions["vector"].startswith("0.")
    recall = run.record.facts["recall"]
    assert recall["ivfflat-r99.9"]["recall"] == 1.0, "200 neighbours: one less is below 0.999"
    assert 0.5 <= recall["ivfflat-r50"]["recall"] <= 1.0
    assert recall["ivfflat-r50"]["value"] <= recall["ivfflat-r99.9"]["value"] <= 10
    for step in run.steps:
        assert step.operations > 0
    if distance == "l2":
        page = next((place / "results").rglob("*.html")).read_text()
        assert "Recall (vector)" in page and "Rate against recall: ivfflat" in page and "vector 0." in page
        rows = next((place / "results").rglob("recall.csv")).read_text().splitlines()
        assert len(rows) == 3 and "ivfflat.probes" in rows[1]
        plans = [plan for step in run.steps for plan in step.plans]
        assert any("vector_items_ivfflat" in str(plan.plan) for plan in plans) or not plans


@pytest.mark.slow
def test_two_servers_are_compared_at_equal_recall(place: Path, pgstrata: Program, pgvector: Path) -> None:
    options = "rows = 5000, dimensions = 16, queries = 100, recall = [0.95], seconds = 4, warmup = 0.5"
    servers = [debian_archive(15, "bookworm"), debian_archive(17, "trixie")]
    tables = "".join(
        VARIANT.format(archive=archive, label=archive.name[:13], pgvector=pgvector) for archive in servers
    )
    keys = 'order = "interleaved"\nplacement = "free"\nslice_seconds = 0.02\nrounds = 2'
    done = pgstrata("run", campaign(place, tables, options, keys))
    assert done.returncode == 0, done.stdout + done.stderr
    old, new = Results(place / "results").runs()
    for run in (old, new):
        assert run.record.facts["recall"]["hnsw-r95"]["recall"] >= 0.95
        assert all(step.slices for step in run.steps if step.measured)


def test_a_server_without_it_is_said_before_anything_starts(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    file = place / "campaign.toml"
    file.write_text('servers = ["pg:17"]\n[[workloads]]\nname = "vector"\nscale = "quick"\n')
    done = pgstrata("run", file)
    assert done.returncode == 2
    assert "vector needs the extension vector, which pg17.11 lacks" in done.stderr
    file.write_text(
        '[[variants]]\nserver = "pg:17"\nextensions = ["pgvector"]\n'
        '[[workloads]]\nname = "pgbench"\nscale = "quick"\n'
    )
    done = pgstrata("run", file)
    assert done.returncode == 2
    assert "pg17.11.vector lacks the extension vector" in done.stderr
    # Nothing is written to somebody's installation.
    (place / "source").mkdir()
    (place / "source" / "Makefile").touch()
    file.write_text(file.read_text().replace("pg:17", f"path:{pg17.bin_dir}").replace("pgvector", "source"))
    done = pgstrata("run", file)
    assert done.returncode == 2 and "PG_CONFIG=DIR/bin/pg_config install" in done.stderr, done.stderr
    assert not (place / "results").exists() or not Results(place / "results").runs()


def test_an_extension_that_a_server_has_is_a_variant(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "campaign.toml"
    variant = '[[variants]]\nserver = "pg:17"\n'
    file.write_text(
        f'{variant}{variant}extensions = ["pg_trgm"]\n[[workloads]]\nname = "pgbench"\n'
        'options = { scale = 1, seconds = 0.5, warmup = 0, builtin = "select-only", modes = "simple" }\n'
    )
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    plain, with_it = Results(place / "results").runs()
    assert (plain.variant, with_it.variant) == ("pg17.11", "pg17.11.pg_trgm")
    assert plain.record.extensions == {} and with_it.record.extensions.keys() == {"pg_trgm"}
    assert "pg_trgm 1." in next((place / "results").rglob("*.html")).read_text()
