"""Estimated against actual rows on two real servers: columns that depend on each other, and who knows it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.program import Program

# Both columns say the same, and no statistics tell that. Those of expressions do, from version 14 on.
SETUP = """
CREATE TABLE car AS SELECT n % 100 AS maker, n % 100 AS model, n FROM generate_series(1, 20000) n;
DO $$ BEGIN
    IF current_setting('server_version_num')::int >= 140000 THEN
        EXECUTE 'CREATE STATISTICS car_half ON (maker / 2), (model / 2) FROM car';
    END IF;
END $$;
ANALYZE car;
"""
QUERIES = {
    "correlated": "SELECT count(n) FROM car WHERE maker = 7 AND model = 7",
    "expressions": "SELECT count(n) FROM car WHERE maker / 2 = 3 AND model / 2 = 3",
    "simple": "SELECT count(n) FROM car WHERE maker = 7",
}
CAMPAIGN = """
name = "rows"
data_dir = "data"
servers = ["{old}", "{new}"]

[[workloads]]
name = "custom"
[workloads.options]
setup = ["setup.sql"]
queries = "queries"
plans = "{plans}"
"""


def write(place: Path, old: Server, new: Server, plans: str) -> Path:
    (place / "setup.sql").write_text(SETUP)
    (place / "queries").mkdir()
    for name, text in QUERIES.items():
        (place / "queries" / f"{name}.sql").write_text(text)
    file = place / "rows.toml"
    file.write_text(CAMPAIGN.format(old=old.spec, new=new.spec, plans=plans))
    return file


@pytest.mark.timeout(300)
def test_a_query_that_is_estimated_better(place: Path, pgstrata: Program, pg13: Server, pg17: Server) -> None:
    done = pgstrata("run", write(place, pg13, pg17, "analyze"))
    assert done.returncode == 0, done.stdout + done.stderr
    report = place / "results" / "rows.report"
    page = (report / "index.html").read_text()
    assert "Estimated against actual rows" in page
    assert "estimates 1 better and 0 worse by more than a factor of 2." in page
    with (report / "tables" / "custom-estimates.csv").open(encoding="utf-8") as file:
        rows = {row["query"]: row for row in csv.DictReader(file)}
    (change,) = (key for key in rows["simple"] if key.startswith("change"))
    assert next(iter(rows)) == "expressions" and rows["expressions"][change].startswith("better, ")
    assert rows["correlated"][change] == rows["simple"][change] == "alike"
    worst = [float(value) for key, value in rows["correlated"].items() if key.startswith("worst")]
    assert len(worst) == 2 and min(worst) > 20, "200 rows, estimated as if the columns were independent"

    labels = [key.partition("[")[2].rstrip("]") for key in rows["simple"] if key.startswith("worst")]
    compared = pgstrata("compare", *labels, "--format", "json")
    (comparison,) = json.loads(compared.stdout)
    (estimates,) = comparison["estimates"]
    assert (estimates["workload"], estimates["better"], estimates["worse"]) == ("custom", 1, 0)
    assert estimates["base_factor"] > estimates["other_factor"] >= 1
    (query,) = (entry for entry in estimates["queries"] if entry["query"] == "correlated")
    assert query["base"]["node"] == "Seq Scan on car" and query["base"]["actual_rows"] == 200


@pytest.mark.timeout(300)
def test_without_actual_rows_there_is_no_table(
    place: Path, pgstrata: Program, pg13: Server, pg17: Server
) -> None:
    done = pgstrata("run", write(place, pg13, pg17, "estimate"))
    assert done.returncode == 0, done.stdout + done.stderr
    report = place / "results" / "rows.report"
    assert "Estimated against actual rows" not in (report / "index.html").read_text()
    assert not list(report.glob("tables/*estimates*"))
