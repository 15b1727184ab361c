"""The commands that read: what they print, in which forms, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import typer

from pgstrata.cli import main
from pgstrata.cli.output import aligned
from pgstrata.cli.reference import commands_of
from pgstrata.server.find.model import Server
from pgstrata.workload.cached import Cached
from support.runs import make_campaign

COMMANDS = [
    ["run"],
    ["init"],
    ["report"],
    ["runs"],
    ["show"],
    ["query"],
    ["doctor"],
    ["workloads"],
    ["servers", "list"],
    ["servers", "fetch"],
    ["servers", "remove"],
    ["config", "list"],
    ["config", "explain"],
]

Output = tuple[int, str, str]
Call = Callable[..., Output]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """One command line in this process: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("PGSTRATA_TRACE", raising=False)

    def invoke(*arguments: str) -> Output:
        code = main.invoke(list(arguments))
        output = capsys.readouterr()
        return code, output.out, output.err

    return invoke


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_examples(call: Call, command: list[str]) -> None:
    code, out, _ = call(*command, "--help")
    assert code == 0
    assert f"  pgstrata {' '.join(command)}" in out.partition("Examples:")[2]


def test_help_lists_all_commands_and_exit_codes(call: Call) -> None:
    code, out, _ = call("--help")
    assert code == 0
    for command in COMMANDS:
        assert f"\n  {command[0]}" in out
    assert "130" in out


def test_help_says_a_default_once() -> None:
    for name, command in commands_of(typer.main.get_command(main.app), ()):
        with click.Context(command) as context:
            helps = [record[1] for p in command.params if (record := p.get_help_record(context))]
        assert [text for text in helps if "(default: " in text and "[default: " in text] == [], name


def test_version(call: Call) -> None:
    code, out, _ = call("--version")
    assert code == 0
    assert out.startswith("pgstrata ")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["rnu"], "rnu"),
        (["run", "--sever", "pg:17"], "--sever"),
        (["run", "--repeats", "many"], "--repeats"),
        (["run", "--repeats", "0", "--server", "pg:17"], "`repeats`"),
        (["run"], "nothing to compare"),
        (["run", "none.toml"], "none.toml"),
        (["run", "--server", "17"], "17"),
        (["run", "--server", "pg:17", "--workload", "isnert"], "isnert"),
        (["run", "--server", "pg:17", "--config", "no-such"], "no-such"),
        (["show"], "RUN"),
        (["show", "123"], "123"),
        (["report", "nowhere"], "nowhere"),
        (["report", "--threshold", "7"], "threshold"),
        (["config", "explain", "no-such", "--server", "pg:11"], "no-such"),
        (["workloads", "isnert"], "isnert"),
        (["servers", "remove", "seventeen"], "seventeen"),
        (["runs", "--format", "xml"], "xml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_is_not_valid_is_said_in_a_sentence(
    call: Call, arguments: list[str], word: str, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    code, _, err = call(*arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert word in err
    assert "Traceback" not in err
    assert 1 <= len(err.strip().splitlines()) <= 3


def test_a_trace_is_shown_when_asked_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_TRACE", "1")
    code, _, err = call("run", "none.toml")
    assert code == 2
    assert "Traceback" in err


def test_a_defect_is_a_sentence_too(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*unused: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("pgstrata.store.results_folder.Results.entries", broken)
    code, _, err = call("runs")
    assert code == 1
    assert err.startswith("error: unexpected ZeroDivisionError: oops")
    assert "PGSTRATA_TRACE=1" in err


def test_init_writes_a_campaign_and_replaces_none(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("init", "studies/mine.toml")
    assert code == 0
    assert "studies/mine.toml" in out
    code, _, err = call("init", "studies/mine.toml")
    assert code == 2
    assert "there already" in err
    (tmp_path / "studies/mine.toml").write_text("")
    assert call("init", "studies/mine.toml", "--force")[0] == 0
    assert (tmp_path / "studies/mine.toml").stat().st_size > 500


def test_runs_lists_what_is_there(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("runs")
    assert (code, out) == (0, "no runs in results\n")
    make_campaign(tmp_path / "results", variants=["pg12.22", "pg17.6"], failed=["pg17.6"])
    _, out, _ = call("runs")
    *lines, error = out.splitlines()
    assert len(lines) == 4 and "failed" in lines[3]
    short = lines[3].split()[0]
    assert error.startswith(f"{short}: the server died")
    assert call("show", short)[0] == 0
    _, out, _ = call("runs", "--format", "json")
    assert [run["status"] for run in json.loads(out)] == ["done", "failed"]
    _, out, _ = call("runs", "--format", "csv")
    assert out.splitlines()[0] == "run_id,campaign,variant,workload,repeat,status,started,steps,error"
    code, out, err = call("runs", "--format", "csv", "--campaign", "another")
    assert (code, out) == (2, "") and "another" in err


def test_lists_fit_a_terminal_of_80_columns(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_campaign(tmp_path / "results", campaign="sysbench-quick", repeats=2, seconds=2)
    data = Cached(
        "3f9a21c40000",
        "rows of shop.dump",
        "2026-11-28T18:52:07+00:00",
        tmp_path / "loaded" / ("3f9a21c4" * 8),
        123_456_789,
        "pg17.11",
        187.0,
    )
    monkeypatch.setattr("pgstrata.workload.cached.cached", lambda: [data])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("runs", "data list"):
        code, out, _ = call(*command.split())
        assert code == 0 and max(map(len, out.splitlines()[:-1])) <= 80, out
    assert "2026-11-28 18:52" in out and str(data.folder) not in out
    assert json.loads(call("data", "list", "--format", "json")[1])[0]["folder"] == str(data.folder)


@pytest.mark.parametrize("name", ["", "sysbench", "insert", "pgbench"])
def test_workloads_are_described_in_80_columns(name: str, call: Call) -> None:
    code, out, _ = call("workloads", *name.split())
    assert code == 0
    lines = [line for line in out.splitlines() if " = " not in line]  # those of options, which may be lists
    assert len(lines) > 5 and max(map(len, lines)) <= 80


def test_a_broken_run_is_named(call: Call, tmp_path: Path) -> None:
    (folder,) = make_campaign(tmp_path / "results", variants=["pg12.22"])
    (folder / "run.json").write_text("{")
    code, _, err = call("runs")
    assert code == 0
    assert "left out" in err
    assert "run.json is damaged" in err


def test_show_finds_a_run_by_id_part_and_folder(call: Call, tmp_path: Path) -> None:
    (first, two) = make_campaign(tmp_path / "results", variants=["pg12.22", "pg17.6"], failed=["pg17.6"])
    run_id = first.name.partition("-")[2]
    whole = json.loads((first / "run.json").read_text())
    for name in (run_id, run_id[-8:], str(first)):
        code, out, _ = call("show", name)
        assert code == 0
        assert "PostgreSQL" in out
        assert "qp1000" in out
        assert json.loads(call("show", name, "--format", "json")[1]) == whole
    code, out, _ = call("show", str(two))
    assert code == 0
    assert "failed: " in out
    code, _, err = call("show", "2")
    assert code == 2
    assert "fits 2 runs" in err


@pytest.mark.long
def test_query_has_three_forms(call: Call, tmp_path: Path) -> None:
    make_campaign(tmp_path / "other", variants=["pg12.22"])
    sql = "select step, rate, sla_met from steps where step in ('l.i0', 'qp100') order by step_order"
    code, out, _ = call("query", sql, "--results", "other")
    assert code == 0
    assert out.splitlines()[0].split() == ["step", "rate", "sla_met"]
    rows = json.loads(call("query", sql, "--results", "other", "--format", "json")[1])
    assert [row["step"] for row in rows] == ["l.i0", "qp100"]
    assert rows[1]["sla_met"] is True
    table = list(csv.DictReader(io.StringIO(call("query", sql, "--results", "other", "--format", "csv")[1])))
    assert [float(row["rate"]) for row in table] == [row["rate"] for row in rows]


@pytest.mark.long
@pytest.mark.parametrize(
    "sql",
    ["select", "select x from steps", "drop view steps", "alter view steps rename to x", "copy steps to 'x'"],
)
def test_query_refuses_what_is_no_reading(call: Call, tmp_path: Path, sql: str) -> None:
    make_campaign(tmp_path / "results", variants=["pg12.22"])
    code, _, err = call("query", sql)
    assert code == 2
    assert err.startswith("error: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results"]


@pytest.mark.long
def test_numbers_that_are_none_stay_valid_json(call: Call, tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", variants=["pg12.22"])
    sql = "select 'NaN'::double as a, 'inf'::double as b, date '2026-01-02' as c, [1, 2] as d, null as e"
    assert json.loads(call("query", sql, "--format", "json")[1]) == [
        {"a": None, "b": None, "c": "2026-01-02", "d": [1, 2], "e": None}
    ]


@pytest.mark.long
def test_report_goes_beside_the_campaign(call: Call, tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", variants=["pg12.22", "pg17.6"])
    code, out, _ = call("report", "--base", "pg17.6")
    assert code == 0
    page = tmp_path / "results/insert-cached.report/index.html"
    assert f"report: {page}" in out
    assert page.is_file()
    # The report is no run, no variant, no campaign.
    assert len(json.loads(call("runs", "--format", "json")[1])) == 2


@pytest.mark.long
def test_reports_of_several_campaigns(call: Call, tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_campaign(tmp_path / "results", campaign=name, variants=["pg12.22", "pg17.6"])
    assert call("report")[0] == 0
    assert {p.name for p in (tmp_path / "results").glob("*.report")} == {"one.report", "two.report"}
    code, _, err = call("report", "--out", "x")
    assert code == 2
    assert "--campaign" in err
    assert call("report", "--campaign", "two", "--out", "x")[0] == 0
    assert (tmp_path / "x/index.html").is_file()


@pytest.mark.program
def test_doctor_names_every_check_with_its_state(call: Call) -> None:
    code, out, _ = call("doctor")
    assert code == 0
    assert "swap" in out
    checks = json.loads(call("doctor", "--format", "json")[1])
    assert {check["state"] for check in checks} <= {"ok", "warn", "bad", "unknown"}
    assert all(check["fix"] for check in checks if check["state"] in ("warn", "bad"))


def test_workloads_lists_names_and_options(call: Call) -> None:
    _, out, _ = call("workloads")
    assert "insert" in out
    _, out, _ = call("workloads", "insert")
    assert "rows_i1" in out
    assert "quick" in out
    (record,) = json.loads(call("workloads", "insert", "--format", "json")[1])
    assert record["options"]["clients"]["description"]
    (record,) = json.loads(call("workloads", "custom", "--format", "json")[1])
    named = set(re.findall(r"#/\$defs/(\w+)", json.dumps(record)))
    assert named and named <= set(record["$defs"])


def test_config_explain_says_what_a_version_makes_of_a_config_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("work_mem = 8MB\nmax_wal_size = 4GB\nwal_compression = lz4\n")
    code, out, _ = call("config", "explain", "mine.conf", "--server", "pg:11.0")
    assert code == 0
    assert "work_mem" in out
    record = json.loads(call("config", "explain", "mine.conf", "--server", "pg:11.0", "--format", "json")[1])
    assert record["settings"]["work_mem"] == "8MB"
    assert record["version"] == "11.0"
    (tmp_path / "bad.conf").write_text("work_men = 8MB\n")
    code, _, err = call("config", "explain", "bad.conf", "--server", "pg:11.0")
    assert code == 2
    assert "work_mem" in err
    assert "bad" in err
    assert "1" in err


def test_config_list_names_the_shipped_config_files(call: Call) -> None:
    config_files = json.loads(call("config", "list", "--format", "json")[1])
    assert config_files
    for file in config_files:
        assert file["what it is"]
        assert not file["what it is"].startswith(file["fragment"])


@pytest.mark.program
def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m pgstrata workloads insert --format json | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def test_tables_align_and_let_nothing_through_that_a_terminal_would_obey() -> None:
    lines = aligned(["name", "n"], [["a\x1b[31mb\nc", 1], ["x", 12345], [None, None]])
    assert lines[2].endswith("    1")
    assert all("\x1b" not in line for line in lines)
    assert len(lines) == 5
    assert aligned(["only"], []) == ["only", "----"]


@pytest.mark.parametrize("width", [200, 80, 40, 20])
def test_texts_of_a_table_are_broken_where_a_terminal_is_narrower(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    text = (
        "Updates a row drawn by a Zipf distribution: few rows are updated often, and most are never touched."
    )
    columns, rows = ["step", "n", "what it does"], [["update-zipf", 12, text], ["a/path/of/one", 3, ""]]
    piped = aligned(columns, rows)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    lines = aligned(columns, rows)
    if width in (200, 20):  # it fits as it is, or not even when broken
        assert lines == piped
    else:
        assert max(map(len, lines)) <= width
        assert " ".join(" ".join(lines[2:]).split()) == f"update-zipf 12 {text} a/path/of/one 3"


@pytest.mark.server
def test_config_explain_says_what_a_run_would_leave_out(call: Call, tmp_path: Path, pg17: Server) -> None:
    """The libraries of a service are not those of this server, which is here and can be asked."""
    (tmp_path / "rds.conf").write_text(
        "shared_preload_libraries = 'rdsutils,auto_explain'\nlc_time = 'xx_YY'\nwal_compression = lz4\n"
    )
    command = ("config", "explain", "rds.conf", "--format", "json", "--server")
    for spec in (pg17.spec, f"path:{pg17.bin_dir}"):
        record = json.loads(call(*command, spec)[1])
        assert "lc_time" not in record["settings"]
        assert "rdsutils" not in record["settings"]["shared_preload_libraries"]
        reasons = [change["reason"] for change in (*record["dropped"], *record["mapped"])]
        assert any("has no such library: rdsutils" in reason for reason in reasons)
    record = json.loads(call(*command, "pg:11.1")[1])
    assert "rdsutils" in record["settings"]["shared_preload_libraries"], "not here, and not asked"
