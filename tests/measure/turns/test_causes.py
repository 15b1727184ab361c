"""Queries that one side was made slow for: the cause and the remedy that a comparison of real servers finds.

On a busy machine a verdict may stay unclear, and then nothing is said of a cause; what is said must be right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.find.model import Server
from support.interrupts import load
from support.program import Program

Json = dict[str, Any]

SETUP = """
CREATE TABLE item (id int PRIMARY KEY, kind int, a int, b int, c int, note text);
INSERT INTO item SELECT n, n % 6000, 1, 1, 1, repeat(md5(n::text), 4) FROM generate_series(1, 30000) n;
CREATE INDEX item_kind ON item (kind);
CREATE TABLE part (id int PRIMARY KEY, item int, amount int);
INSERT INTO part SELECT n, (n::bigint * 7919) % 30000 + 1, n % 97 FROM generate_series(1, 30000) n;
CREATE INDEX part_item ON part (item);
CREATE FUNCTION turned(n int) RETURNS int STABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('server_version_num')::int >= 170000 THEN
        FOR i IN 1..5000 LOOP NULL; END LOOP;
    END IF;
    RETURN n;
END $$;
CREATE FUNCTION points(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..500 LOOP NULL; END LOOP;
    RETURN n;
END $$;
DO $$ BEGIN
    IF current_setting('server_version_num')::int >= 170000 THEN
        ALTER FUNCTION points(int) STABLE;
        DROP INDEX item_kind;
        ALTER TABLE item ALTER a SET STATISTICS 0, ALTER b SET STATISTICS 0, ALTER c SET STATISTICS 0;
    END IF;
END $$;
"""

QUERIES = {
    "index": "SELECT count(*), max(note) FROM item WHERE kind = 17",
    "function": "SELECT sum(turned(id)) FROM part WHERE id <= 500",
    "statistics": "SELECT sum(amount) FROM item i JOIN part p ON p.item = i.id WHERE a = 1 AND b = 1 AND c=1",
    "equal": "SELECT sum(sqrt(n)) FROM generate_series(1, 20000) n",
}


def write(
    place: Path,
    variants: Mapping[str, tuple[Server, str]],
    queries: Mapping[str, str],
    *,
    time_limit: int = 10,
    **more: Any,
) -> Path:
    """A campaign. variants: server and further keys, by label."""
    (place / "setup.sql").write_text(SETUP)
    (place / "queries").mkdir()
    for name, text in queries.items():
        (place / "queries" / f"{name}.sql").write_text(f"{text};\n")
    keys = {"max_seconds": 20, "why_seconds": 40, "margin": 0.1} | more
    sides = "\n".join(
        f'[[variants]]\nserver = "{server.spec}"\nlabel = "{label}"\n{extra}'
        for label, (server, extra) in variants.items()
    )
    file = place / "causes.toml"
    file.write_text(
        'name = "causes"\ndata_dir = "data"\norder = "interleaved"\nother_load = 1\nuntil = "verdict"\n'
        + "\n".join(f"{key} = {value}" for key, value in keys.items())
        + f'\n{sides}\n[[workloads]]\nname = "custom"\n[workloads.options]\nsetup = ["setup.sql"]\n'
        f'queries = "queries"\ntime_limit = {time_limit}\n'
    )
    return file


def causes(place: Path, pgstrata: Program, file: Path) -> tuple[dict[str, str], dict[str, Json]]:
    """The word of each query, and the cause of those that have one."""
    run = pgstrata("run", file)
    assert run.returncode == 0, run.stdout + run.stderr
    compared = pgstrata("compare", "old", "new", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    steps = {step["step"].removeprefix("queries."): step for step in json.loads(compared.stdout)[0]["steps"]}
    by_name = {name: step["cause"] for name, step in steps.items() if "cause" in step}
    for name, cause in by_name.items():
        assert steps[name]["word"] in ("slower", "faster"), "a cause is said of proven differences only"
        assert cause["sentence"] in run.stdout
    return {name: step["word"] for name, step in steps.items()}, by_name


def best(cause: Json) -> Json | None:
    """The remedy that is named, which is the first of those proven."""
    return next((remedy for remedy in cause["remedies"] if remedy["word"] == "faster"), None)


def test_what_was_planted_is_found(place: Path, pgstrata: Program, pg13: Server, pg17: Server) -> None:
    file = write(place, {"old": (pg13, ""), "new": (pg17, "")}, QUERIES)
    words, by_name = causes(place, pgstrata, file)
    assert "equal" not in by_name
    assert all(words[name] in ("slower", "unclear") for name in QUERIES if name != "equal")
    if "index" in by_name:
        cause = by_name["index"]
        assert cause["word"] in ("schema", "partly planner", "unknown")
        remedy = best(cause)
        if remedy is not None:
            assert remedy["sql"] == ["CREATE INDEX item_kind ON public.item USING btree (kind)"]
            assert {other["query"] for other in remedy["others"]} <= {"function", "statistics", "equal"}
    if "function" in by_name:
        cause = by_name["function"]
        assert (cause["word"], cause["differences"]) == ("executor", [])
        assert best(cause) is None
        assert cause["nodes"] and cause["nodes"][0]["other_ms"] > cause["nodes"][0]["base_ms"]
    if "statistics" in by_name:
        cause = by_name["statistics"]
        assert cause["word"] in ("planner", "both", "partly planner", "partly executor", "unknown")
        remedy = best(cause)
        if remedy is not None and remedy["kind"] != "setting":
            assert remedy["sql"][0].startswith("ALTER TABLE item ALTER COLUMN a SET STATISTICS")
    assert by_name, f"factors of fifty and more were not proven: {words}"
    page = (place / "results" / "causes.report" / "index.html").read_text()
    assert "Why, and what helps: custom against old" in page
    assert "Remedies that were tried" in page


def test_a_with_query_of_one_side(place: Path, pgstrata: Program, pg13: Server, pg17: Server) -> None:
    """One with a volatile function is not inlined, so the side where it is stable computes it five times."""
    text = "WITH x AS (SELECT points(id) AS a FROM part WHERE id < 300) SELECT sum(a + a + a + a + a) FROM x"
    file = write(place, {"old": (pg13, ""), "new": (pg17, "")}, {"with": text})
    words, by_name = causes(place, pgstrata, file)
    assert words["with"] in ("slower", "unclear")
    if "with" in by_name:
        cause = by_name["with"]
        assert cause["old_plan"] == ["WITH x AS MATERIALIZED (…)"]
        assert cause["word"] in ("planner", "partly planner", "unknown")
        assert [remedy["sql"] for remedy in cause["remedies"] if remedy["kind"] == "rewrite"] == [
            [text.replace(" AS (", " AS MATERIALIZED (")]
        ]
        remedy = best(cause)
        assert remedy is None or remedy["kind"] == "rewrite"


def test_a_setting_of_one_side(place: Path, pgstrata: Program, pg17: Server) -> None:
    queries = {
        "join": "SELECT sum(amount) FROM item i JOIN part p ON p.item = i.id WHERE i.id BETWEEN 10 AND 30"
    }
    slow = 'config = ["default", "enable_nestloop=off", "enable_indexscan=off", "enable_bitmapscan=off"]'
    words, by_name = causes(place, pgstrata, write(place, {"old": (pg17, ""), "new": (pg17, slow)}, queries))
    assert words["join"] in ("slower", "unclear")
    if "join" in by_name:
        assert by_name["join"]["word"] in ("planner", "partly planner", "unknown")
        assert "SET LOCAL enable_nestloop = on" in by_name["join"]["old_plan"]
        assert all(sql.startswith("SET LOCAL enable_") for sql in by_name["join"]["old_plan"])
        remedy = best(by_name["join"])
        assert remedy is None or remedy["kind"] in ("setting", "index")


def test_a_query_that_ends_with_the_old_plan_only(place: Path, pgstrata: Program, pg17: Server) -> None:
    queries = {
        "long": "SELECT count(*) FROM item i JOIN item j USING (note) WHERE i.id <= 30000 AND j.id <= 30000"
    }
    slow = 'config = ["default", "enable_hashjoin=off", "enable_mergejoin=off"]'
    file = write(place, {"old": (pg17, ""), "new": (pg17, slow)}, queries, time_limit=2)
    words, by_name = causes(place, pgstrata, file)
    assert words == {"long": "slower"}
    cause = by_name["long"]
    assert cause["word"] in ("planner", "unknown")
    assert len(cause["old_plan"]) == 1 and cause["old_plan"][0].startswith("SET LOCAL enable_")
    assert cause["sentence"].endswith("with its own plan it runs into its limit")
    remedy = best(cause)
    assert remedy is not None and remedy["at_most"] and remedy["times"]["ratio"] < 0.9


def test_equal_servers_have_no_causes(place: Path, pgstrata: Program, pg17: Server) -> None:
    queries = {name: QUERIES[name] for name in ("index", "equal")}
    file = write(place, {"old": (pg17, ""), "new": (pg17, "")}, queries, max_seconds=6)
    words, by_name = causes(place, pgstrata, file)
    assert by_name == {} and not set(words.values()) & {"slower", "faster"}


@pytest.mark.program
def test_no_time_for_causes_means_none(place: Path, pgstrata: Program, pg13: Server, pg17: Server) -> None:
    queries = {"index": QUERIES["index"]}
    variants = {"old": (pg13, ""), "new": (pg17, "")}
    _, by_name = causes(place, pgstrata, write(place, variants, queries, why_seconds=0, max_seconds=6))
    assert by_name == {}


def test_a_large_factor_has_its_cause_beside_busy_programs(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "setup.sql").write_text(SETUP)
    (place / "join.sql").write_text(
        "SELECT sum(amount) FROM item i JOIN part p ON p.item = i.id WHERE i.id BETWEEN 10 AND 50;\n"
    )
    off = ("indexscan", "bitmapscan", "indexonlyscan", "hashjoin", "mergejoin")
    slow = "+".join(["default", *(f"enable_{name}=off" for name in off)])
    with load(2):
        run = pgstrata(
            "compare-queries", "join.sql", "--setup", "setup.sql", "--server", pg17.spec,
            *("--config", "default", "--config", slow),
            *("--max-seconds", "40", "--why-seconds", "60", "--format", "json", "--no-report"),
        )  # fmt: skip
    (join,) = json.loads(run.stdout)["comparisons"][0]["steps"]
    assert join["word"] == "slower", join
    assert join["cause"]["word"] in ("planner", "partly planner"), join["cause"]
    assert any(sql.startswith("SET LOCAL enable_") for sql in join["cause"]["old_plan"])
    remedy = best(join["cause"])
    assert remedy is not None and remedy["kind"] in ("setting", "index"), join["cause"]["remedies"]
    assert remedy["word"] == "faster" and remedy["times"]["high"] < 1
