"""Files that a campaign names: found beside it, checked before anything starts, part of what is compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.errors import UsageError
from pgstrata.server.features import Features
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload.core.language import Phase, Refine, Step
from pgstrata.workload.core.options import REFINED
from pgstrata.workload.custom.queries import read_queries
from support.campaign import server
from support.shop import write_files

Write = Callable[[str], Path]


@pytest.fixture
def campaign(tmp_path: Path) -> Write:
    """Writes a campaign with these options of workload custom, beside the files of the shop."""
    write_files(tmp_path)
    (tmp_path / "make.sql").write_text("CREATE TABLE t (id int);\nCREATE TABLE s.u PARTITION OF t DEFAULT;\n")
    (tmp_path / "t.csv").write_text("id\n1\n")

    def write(options: str) -> Path:
        file = tmp_path / "c.toml"
        head = 'servers = ["pg:12", "pg:17"]\n[[workloads]]\nname = "custom"\n[workloads.options]\n'
        file.write_text(head + options)
        return file

    return write


def phases(file: Path, version_num: int = 170_000) -> list[Phase]:
    (chosen,) = read_campaign(file).workloads
    result: list[Phase] = chosen.workload.phases(chosen.options, Features(version_num))
    return result


def steps(file: Path) -> dict[str, Step]:
    return {p.name: p for p in phases(file) if isinstance(p, Step)}


def plan(file: Path) -> Plan:
    return make_plan(read_campaign(file), Results(file.parent / "results"), server)


@pytest.mark.program
def test_scripts_alone_are_one_step(campaign: Write) -> None:
    (step,) = steps(campaign('scripts = ["look.sql@9", "buy.sql"]\nrate = 100\nclients = 4\n')).values()
    (role,) = step.roles
    assert (step.name, role.name, role.clients, step.reads_only) == ("look+buy", "query", 4, False)
    assert role.rate is not None and role.rate.per_client == 25
    assert [script.weight for script in role.scripts] == [9, 1]


@pytest.mark.program
def test_roles_stand_side_by_side_and_the_first_is_judged(campaign: Write) -> None:
    by_name = steps(
        campaign(
            'clients = [1, 8]\nmode = "prepared"\n'
            '[[workloads.options.steps]]\nname = "mixed"\nseconds = 5\nroles = ['
            '{name = "look", scripts = ["look.sql"]}, '
            '{name = "buy", scripts = "buy.sql", clients = 2, rate = 50, mode = "simple"}]\n'
        )
    )
    assert list(by_name) == ["mixed-c1", "mixed-c8"]
    look, buy = by_name["mixed-c8"].roles
    assert (look.clients, look.mode, look.rate) == (8, "prepared", None)
    assert buy.rate is not None and (buy.clients, buy.mode, buy.rate.per_client) == (2, "simple", 25)
    assert by_name["mixed-c8"].headline.role == "look" and by_name["mixed-c8"].seconds == 5


@pytest.mark.program
def test_what_is_said_to_read_only_is_held_to_it(campaign: Write) -> None:
    step = steps(campaign('scripts = "look.sql"\nreads_only = true\n'))["look"]
    assert step.reads_only
    (begin,) = step.roles[0].start
    assert "default_transaction_read_only = on" in str(begin.op())


@pytest.mark.program
def test_tables_of_setup_are_those_it_makes_without_partitions(campaign: Write) -> None:
    by_name = steps(campaign('setup = "make.sql t.csv"\nscripts = "look.sql"\n'))
    assert list(by_name) == ["load.make", "load.rows", "look"]
    assert all(step.tables == ["t"] for step in by_name.values())
    assert by_name["load.make"].load and not by_name["load.make"].measured
    (script,) = by_name["load.rows"].roles[0].scripts
    assert "COPY t FROM STDIN WITH CSV HEADER" in str(script.spec())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('scripts = "nowhere.sql"', r"there is no file .*nowhere\.sql"),
        ('scripts = "look.sql@x"', "the weight 'x' of"),
        ('scripts = "look.sql"\n[[workloads.options.steps]]\nscripts = "buy.sql"', "short for one step"),
        ('[[workloads.options.steps]]\nname = "a"', "either `scripts` or `roles`"),
        ('[[workloads.options.steps]]\nscripts = "look.sql"\nheadline = "buy"', "names no role of the step"),
        (
            '[[workloads.options.steps]]\nname = "queries"\nscripts = "look.sql"',
            "two steps are called 'queries'",
        ),
        ('[[workloads.options.steps]]\nscripts = "look.sql"\nclient = 3', "unknown key .*client"),
        ('setup = [{table = "t", files = ["t.xls"]}]', "'t.xls' is no file of rows"),
        ("setup = {}", "options.setup` must be a list in \\[brackets\\], not a table"),
        ('queries = "look.sql"', "no file of .*look.sql holds a query"),
        ("seconds = 1", "has nothing to do"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(campaign: Write, options: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(campaign(f"{options}\n"))


@pytest.mark.program
def test_a_script_is_read_by_the_driver_first(campaign: Write, tmp_path: Path) -> None:
    (tmp_path / "look.sql").write_text("SELECT 1;\n\\set x random(1,\nSELECT :x;\n")
    with pytest.raises(UsageError, match=r"look\.sql:2:17: syntax error"):
        plan(campaign('scripts = "look.sql"\n'))


def test_other_content_is_another_measurement(campaign: Write, tmp_path: Path) -> None:
    def contents() -> dict[str, Any]:
        (chosen,) = read_campaign(campaign('setup = ["make.sql"]\nqueries = "queries"\n')).workloads
        digests: dict[str, Any] = chosen.all_options["contents"]
        assert list(digests) == [str(tmp_path / "make.sql"), str(tmp_path / "queries")]
        return digests

    before = contents()
    assert contents() == before
    (tmp_path / "queries" / "q1.sql").write_text("SELECT 2;\n")
    after = contents()
    assert [after[name] == value for name, value in before.items()] == [True, False]


@pytest.mark.program
def test_kept_data_is_that_of_the_files_it_is_made_of(campaign: Write, tmp_path: Path) -> None:
    """Other steps begin with the same data, other content does not."""

    def key(more: str) -> str:
        file = campaign(f'setup = ["make.sql", "t.csv"]\nscripts = "look.sql"\n{more}\n')
        file.write_text("keep_loaded = true\n" + file.read_text())
        first = plan(file).runs[0]
        assert first.data_key
        return first.data_key

    before = key("seconds = 1")
    assert key("seconds = 2\nclients = 8\nqueries = 'queries'") == before
    assert key("load_connections = 1") == before  # of two files one is rows: nothing changes
    (tmp_path / "t.csv").write_text("id\n2\n")
    assert key("seconds = 1") != before


def test_a_file_of_queries_that_is_broken_is_none_of_the_queries(campaign: Write) -> None:
    step = steps(campaign('queries = "queries"\nstreams = 2\n'))
    assert list(step) == ["plans", "queries", "streams"]
    (script,) = step["queries"].roles[0].scripts
    assert re.findall(r"name='(\w+)'", str(script.spec())) == ["lacking", "q1", "q2", "q10"]
    assert step["queries"].reads_only


def test_an_extension_that_one_server_lacks_leaves_it_out(
    campaign: Write, pg12: Server, pg17: Server
) -> None:
    """Known from the servers' files, before anything starts."""
    servers = {"pg:12": pg12, "pg:17": replace(pg17, bin_dir=Path("/nowhere/bin"))}
    file = campaign('setup = ["make.sql"]\nextensions = ["hstore", "postgis"]\nscripts = "look.sql"\n')
    plan = make_plan(read_campaign(file), Results(file.parent / "results"), lambda spec, how: servers[spec])
    assert [run.unable for run in plan.runs] == [
        "custom needs the extension postgis, which pg12.22 lacks",
        "",  # it is not there yet, so nobody knows
    ]
    servers["pg:17"] = pg17
    with pytest.raises(UsageError, match="needs the extension postgis"):
        make_plan(read_campaign(file), Results(file.parent / "results"), lambda spec, how: servers[spec])


def test_extensions_of_a_dump_are_among_those_that_are_needed(campaign: Write, tmp_path: Path) -> None:
    text = 'CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA public;\nCREATE TABLE t (id int);\n'
    (tmp_path / "make.sql").write_text(text)
    (chosen,) = read_campaign(campaign('setup = ["make.sql"]\nscripts = "look.sql"\n')).workloads
    assert chosen.workload.extensions(chosen.options) == ["uuid-ossp"]


@pytest.mark.program
def test_a_dump_that_no_pg_restore_reads_says_which_to_install(campaign: Write, tmp_path: Path) -> None:
    (tmp_path / "new.dump").write_bytes(b"PGDMP" + bytes([1, 250, 0, 4, 8]))
    with pytest.raises(UsageError, match=r"is read by pg_restore of PostgreSQL 18 or later") as raised:
        phases(campaign('setup = ["new.dump"]\n'))
    assert raised.value.exit_code == 2 and "postgresql-client-18" in raised.value.hint


@pytest.mark.program
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("whole.dump", b"PGDMP\x01\x0d\x00\x04\x08", "cannot read .*whole.dump"),
        ("small.sql.gz", b"\x1f\x8b\x08", "is compressed"),
        ("cluster.sql", b"-- PostgreSQL database cluster dump\n\\connect template1\n", r"cluster\.sql:2: "),
        ("folder", None, "it has no toc.dat"),
    ],
)
def test_what_is_no_setup_says_what_it_is(
    campaign: Write, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        phases(campaign(f'setup = ["{name}"]\n'))


CURVE = """
settle = "{settle}"
steps = [
    {{ name = "look", scripts = ["look.sql"], clients = "1..8", reads_only = true }},
    {{ name = "buy", scripts = ["buy.sql"], clients = [2, 4] }},
]
"""


@pytest.mark.program
@pytest.mark.parametrize(("settle", "before"), [("none", 0), ("checkpoint", 1), ("vacuum", 2)])
def test_a_range_of_clients_has_a_place_for_further_points(campaign: Write, settle: str, before: int) -> None:
    planned = phases(campaign(CURVE.format(settle=settle)))
    (place,) = (phase for phase in planned if isinstance(phase, Refine))
    assert (place.steps, tuple(place.clients), place.most) == ("look", (1, 2, 4, 8), REFINED)
    *admin, step = place.at(6)
    assert isinstance(step, Step) and len(admin) == before
    assert (step.name, step.roles[0].clients, step.reads_only) == ("look-c6", 6, True)
    names = [p.steps if isinstance(p, Refine) else p.name for p in planned if isinstance(p, Step | Refine)]
    assert names == ["look-c1", "look-c2", "look-c4", "look-c8", "look", "buy-c2", "buy-c4"]


@pytest.mark.parametrize(
    ("query", "varies"),
    [
        ("EXPLAIN ANALYZE SELECT 1", True),
        ("show work_mem", True),
        ("SELECT xmin FROM t", True),
        ("SELECT calls FROM pg_stat_statements", True),
        ("SELECT c.oid FROM pg_catalog.pg_class c WHERE relname = 'x'", True),
        ("SELECT data_type FROM information_schema.columns", True),
        ("SELECT pg_locks.pid FROM pg_locks", True),
        ("SELECT pg_catalog.lower(a), pg_typeof(a), pg_advisory_lock(1), pg_size_pretty(b) FROM t", False),
        ("SELECT name FROM pg_settings", False),
        ("SELECT 'explain', \"show\", 'pg_stat_x' FROM explain", False),
        ("VALUES (1)", False),
    ],
)
def test_what_tells_of_the_server_is_no_changed_answer(tmp_path: Path, query: str, varies: bool) -> None:
    (tmp_path / "a.sql").write_text(query)
    assert bool(read_queries([tmp_path / "a.sql"]).varying) is varies


def test_a_query_in_utf16_is_to_be_saved_as_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1", encoding="utf-16")
    with pytest.raises(UsageError, match="not UTF-8 text") as caught:
        read_queries([tmp_path / "a.sql"])
    assert caught.value.hint == "save or dump it as UTF-8"
