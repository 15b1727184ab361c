"""The campaign of the join-order benchmark on data of the same shape: rows as published, counts, verdicts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.measure.run.settle import run_admin
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Step, Work
from pgstrata.workload.custom.row_counts import row_count_check
from support.program import Program
from support.queries import work
from support.steps import database, run_step, running

CAMPAIGNS = Path(__file__).parents[3] / "campaigns"

SCHEMA = """
CREATE TABLE title (id int PRIMARY KEY, title text NOT NULL, kind_id int, production_year int,
    md5sum varchar(32));
CREATE TABLE keyword (id int PRIMARY KEY, keyword text NOT NULL, phonetic_code varchar(5));
CREATE TABLE movie_keyword (id int PRIMARY KEY, movie_id int NOT NULL, keyword_id int NOT NULL);
CREATE TABLE movie_info (id int PRIMARY KEY, movie_id int NOT NULL, info_type_id int, info text NOT NULL,
    note text);
CREATE TABLE kind_type (id int PRIMARY KEY, kind varchar(15) NOT NULL);
"""

INDEXES = "".join(
    f"create index {column}_{table} on {table}({column});\n"
    for table, column in (("title", "kind_id"), ("movie_keyword", "movie_id"), ("movie_info", "movie_id"))
)

QUERIES = {
    "1a": "SELECT min(t.title), count(*) FROM title t JOIN movie_keyword mk ON mk.movie_id = t.id "
    "JOIN keyword k ON k.id = mk.keyword_id WHERE k.keyword LIKE '%7'",
    "1b": "SELECT min(mi.info) FROM title t JOIN movie_info mi ON mi.movie_id = t.id "
    "JOIN kind_type kt ON kt.id = t.kind_id WHERE kt.kind = 'movie' AND mi.note IS NULL",
    "2a": "SELECT kt.kind, count(*) FROM title t JOIN kind_type kt ON kt.id = t.kind_id "
    "WHERE t.production_year > 1990 GROUP BY kt.kind",
    "10c": "SELECT count(*) FROM movie_info a JOIN movie_info b USING (movie_id) WHERE a.info = b.info",
}

TEXTS = (
    'A "quoted" word',
    "back\\slash",
    'both: \\" and "\\',
    "\\",
    '"',
    "two\nlines",
    "two\r\nlines, a comma",
    "Ünïcödé 東京",
    "",
    " blanks ",
    "\\N",
    "NULL",
)
"""What texts hold; the empty one is no NULL."""

Value = int | str | None


def tables(titles: int = 300) -> dict[str, list[tuple[Value, ...]]]:
    """Rows by table, drawn from a seed."""
    draw = random.Random(7)
    note = (*TEXTS, None)
    return {
        "kind_type": [(n, kind) for n, kind in enumerate(("movie", "episode", "video game"), 1)],
        "keyword": [(n, f"{TEXTS[n % len(TEXTS)]}{n}", None) for n in range(1, 101)],
        "title": [
            (
                n,
                f"{draw.choice(TEXTS)}{n}",
                draw.randint(1, 3),
                draw.choice((None, 1980, 1995, 2010)),
                f"{n:032x}",
            )
            for n in range(1, titles + 1)
        ],
        "movie_keyword": [(n, draw.randint(1, titles), draw.randint(1, 100)) for n in range(1, 901)],
        "movie_info": [
            (n, draw.randint(1, titles), draw.randint(1, 5), draw.choice(TEXTS), draw.choice(note))
            for n in range(1, 901)
        ],
    }


def published(value: Value) -> str:
    """A value as the published files have it: NULL is nothing, a backslash stands before quotes."""
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def write_files(folder: Path, rows: dict[str, list[tuple[Value, ...]]]) -> None:
    """The folder of rows and the folder of queries, as they are published."""
    (folder / "imdb").mkdir()
    for name, of_table in rows.items():
        text = "".join(",".join(map(published, row)) + "\n" for row in of_table)
        (folder / "imdb" / f"{name}.csv").write_text(text, newline="")
    (folder / "imdb/schematext.sql").write_text(SCHEMA)
    queries = folder / "join-order-benchmark"
    (queries / ".git").mkdir(parents=True)
    files = {"schema": SCHEMA, "fkindexes": INDEXES, **QUERIES}
    for name, text in files.items():
        (queries / f"{name}.sql").write_text(text + "\n")
    (queries / "README.md").write_text("Queries.\n")


def write_campaign(folder: Path, counts: dict[str, int]) -> Path:
    """The campaign that is shipped, with the row counts and statistics of these tables alone."""
    text, head, _ = (CAMPAIGNS / "join-order.toml").read_text().partition("[workloads.options.row_counts]\n")
    file = folder / "join-order.toml"
    file.write_text(text + head + "".join(f"{table} = {rows}\n" for table, rows in counts.items()))
    (folder / "join-order").mkdir()
    statistics = (CAMPAIGNS / "join-order/whole-tables.sql").read_text().splitlines()
    there = [line for line in statistics if not line.startswith("ALTER") or line.split()[2] in counts]
    (folder / "join-order/whole-tables.sql").write_text("\n".join(there) + "\n")
    return file


def path_of(server: Server) -> str:
    assert server.bin_dir is not None
    return f"path:{server.bin_dir.parent}"


@pytest.mark.parametrize("number", [0, 1], ids=["pg13", "pg17"])
def test_rows_are_loaded_as_they_were_published(number: int, pg13: Server, pg17: Server, place: Path) -> None:
    rows = tables()
    write_files(place, rows)
    counts = {table: len(of_table) for table, of_table in rows.items()}
    setup = ["join-order-benchmark/schema.sql", {"folder": "imdb", "header": False, "escape": "\\"}]
    custom = catalog.find("custom")
    options = custom.Options.model_validate(
        {"setup": setup, "row_counts": counts, "settle": "none"}, context={"folder": str(place)}
    )
    with running((pg13, pg17)[number]) as cluster, database(cluster, "pgstrata") as connection:
        confined = cluster.connection("pgstrata", confined=True)
        for phase in custom.phases(options, NEWEST):
            if isinstance(phase, Work):
                work(cluster, "pgstrata", phase)
            elif isinstance(phase, Step):
                run_step(cluster, "pgstrata", phase, connection=confined)
            elif isinstance(phase, Admin):
                run_admin(cluster, phase, "pgstrata")
        for table, of_table in rows.items():
            assert connection.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall() == of_table
        wrong = {**counts, "title": 301, "keyword": 1, "nowhere": 0}
        with pytest.raises(ServerError) as error:
            work(cluster, "pgstrata", row_count_check(wrong, confined=True))
    assert error.value.message == (
        "the rows after `setup` differ from `row_counts`: keyword has 100 instead of 1; "
        'title has 300 instead of 301; nowhere: relation "nowhere" does not exist'
    )


def test_a_table_that_is_read_whole_has_the_same_statistics_on_both(pg13: Server, pg17: Server) -> None:
    text = (CAMPAIGNS / "join-order/whole-tables.sql").read_text()
    (raise_target,) = [line for line in text.splitlines() if line.startswith("ALTER TABLE keyword ")]
    statistics = []
    for server in (pg13, pg17):
        with running(server) as cluster, database(cluster, "pgstrata") as connection:
            connection.execute(SCHEMA)
            connection.execute(
                "INSERT INTO keyword SELECT g, 'k' || g % 5003, g % 99 FROM generate_series(1, 60000) g"
            )
            connection.execute(raise_target.encode())
            connection.execute("ANALYZE keyword")
            statistics.append(
                connection.execute(
                    "SELECT attname, n_distinct, most_common_vals::text, most_common_freqs::text, "
                    "histogram_bounds::text FROM pg_stats WHERE tablename = 'keyword' ORDER BY 1"
                ).fetchall()
            )
    assert statistics[0] == statistics[1]
    assert [(name, distinct) for name, distinct, *_ in statistics[0]] == [
        ("id", -1), ("keyword", 5003), ("phonetic_code", 99)
    ]  # fmt: skip


def test_the_campaign_judges_every_query_and_its_estimates(
    pg13: Server, pg17: Server, pgstrata: Program, place: Path
) -> None:
    rows = tables()
    write_files(place, rows)
    file = write_campaign(place, {table: len(of_table) for table, of_table in rows.items()})
    servers = (f"{path_of(server)}={label}" for server, label in ((pg13, "pg13"), (pg17, "pg17")))
    done = pgstrata(
        "run", file, "--server", ",".join(servers), "--max-seconds", "8", "--why-seconds", "0",
        "--other-load", "100%", "--data-dir", place / "data", PGSTRATA_CACHE=str(place / "cache"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    compared = pgstrata("compare", "pg13", "pg17", "--campaign", "join-order", "--format", "json")
    (against,) = json.loads(compared.stdout)
    words = {step["step"]: step["word"] for step in against["steps"]}
    assert {f"queries.{name}" for name in QUERIES} <= words.keys()
    assert {name.partition(".")[2] for name in words if name.startswith("queries.")} == set(QUERIES)
    assert against["estimates"], compared.stdout
    for run in Results(place / "results").runs():
        assert {"load.schema", "load.whole-tables", "load.rows", "load.fkindexes"} <= {
            s.name for s in run.steps
        }
    page = next(place.glob("results/join-order.report/index.html")).read_text()
    assert "Estimated against actual rows" in page


def test_a_table_that_lacks_rows_ends_the_run(pg17: Server, pgstrata: Program, place: Path) -> None:
    rows = tables()
    write_files(place, rows)
    file = write_campaign(
        place, {table: len(of_table) for table, of_table in rows.items()} | {"title": 2_528_312}
    )
    servers = ",".join(f"{path_of(pg17)}={label}" for label in ("a", "b"))
    done = pgstrata(
        "run", file, "--server", servers, "--no-report", "--data-dir", place / "data",
        PGSTRATA_CACHE=str(place / "cache"),
    )  # fmt: skip
    assert done.returncode == 1
    for label in ("a", "b"):
        problem = "the rows after `setup` differ from `row_counts`: title has 300 instead of 2,528,312"
        assert f"failed: {label}, join-order: {problem}\n" in done.stderr
    (place / "imdb/title.csv").unlink()
    (place / "imdb/names.csv").touch()
    refused = pgstrata("run", file, "--dry-run")
    assert refused.returncode == 2
    assert "no file for table title; no table for file names.csv" in refused.stderr
