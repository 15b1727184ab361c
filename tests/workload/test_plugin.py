"""Workloads from files and packages outside the project: like others, and their errors are their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.loaded import data_made_of
from pgstrata.campaign.plan.runs import make_plan
from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload import catalog, plugin
from pgstrata.workload.core.language import Step
from support.campaign import server
from support.program import Program

COUNTERS = """
from pydantic import Field
from pgstrata.workload.core.language import Admin, Headline, Role, Script, Sql, Step, Uniform, Work
from pgstrata.workload.core.options import RunCost, WorkloadOptions
from beside import ROWS


class Options(WorkloadOptions):
    rows: int = Field(ROWS, ge=1, description="rows of the table")


class Counters:
    name = "counters"
    summary = "counters that are counted up"
    Options = Options
    scales = {"quick": {}}

    def phases(self, options, version_num):
        up = Sql("UPDATE counters SET v = v + 1 WHERE id = {id}", name="up", id=Uniform(1, options.rows))
        return [
            Admin("create", ["CREATE TABLE counters (id int PRIMARY KEY, v int)"]),
            Work("fill", self.fill),
            Step("up", [Role("query", 1, [Script(up)])], Headline("query", "operations", "updates/s"),
                 seconds=0.3, tables=["counters"]),
        ]

    def fill(self, context):
        with context.connect() as connection:
            done = connection.execute("INSERT INTO counters SELECT g, 0 FROM generate_series(1, 10) g")
        return {"counters": {"rows": done.rowcount}}

    def estimate(self, options):
        return RunCost(1, 50_000_000)
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A workload, a module beside it, and a campaign that names it relative to itself."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "beside.py").write_text("ROWS = 10\n")
    (folder / "mine.py").write_text(COUNTERS)
    (folder / "c.toml").write_text('servers = ["pg:17"]\n[[workloads]]\nname = "mine.py:Counters"\n')
    return folder


def refused(written: Path, source: str) -> UsageError:
    (written / "mine.py").write_text(source)
    with pytest.raises(UsageError) as caught:
        chosen = read_campaign(written / "c.toml").workloads[0]
        chosen.workload.phases(chosen.options, NEWEST)
        chosen.workload.estimate(chosen.options)
    return caught.value


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


def test_a_file_beside_the_campaign_is_a_workload(written: Path) -> None:
    (chosen,) = read_campaign(written / "c.toml").workloads
    assert chosen.label == "counters"
    assert chosen.all_options == {"seed": 1, "rows": 10}
    phases = chosen.workload.phases(chosen.options, NEWEST)
    assert [p.name for p in phases if isinstance(p, Step)] == ["up"]
    assert catalog.find("mine.py:Counters", written) is chosen.workload


@pytest.mark.parametrize(
    ("line", "broken", "message"),
    [
        ("from beside import ROWS", "from nowhere import ROWS", "ModuleNotFoundError"),
        ("class Counters:", "class Counters(:", "SyntaxError"),
        ("        return [\n", "        return 1 / 0 * [\n", "ZeroDivisionError: division by zero"),
        ("        return RunCost(1, 50_000_000)", "        raise SystemExit(3)", "SystemExit: 3"),
    ],
    ids=["import", "syntax", "phases", "exit"],
)
def test_what_it_raises_is_said_with_its_own_file_and_line(
    written: Path, line: str, broken: str, message: str
) -> None:
    error = refused(written, COUNTERS.replace(line, broken))
    assert error.exit_code == 2
    assert error.message.startswith(f"{written}/mine.py, line {line_of(COUNTERS, line)}: ")
    assert message in error.message and "pgstrata/workload" not in error.message


def test_what_happens_in_a_library_is_said_of_the_line_that_called_it(written: Path) -> None:
    line = "        return RunCost(1, 50_000_000)"
    error = refused(written, COUNTERS.replace(line, "        import json; return json.loads('{')"))
    assert f"mine.py, line {line_of(COUNTERS, line)}: JSONDecodeError" in error.message


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("class Counters:", "class Other:", "has no class Counters"),
        ("    summary =", "    other =", "it has no `summary`"),
        ("class Options(WorkloadOptions):", "class Options:", "`Options` is no class of WorkloadOptions"),
        ("return RunCost(1, 50_000_000)", "return 5", "`estimate` returned a int where a RunCost was due"),
        ('Work("fill", self.fill)', "self.fill", "`phases` returned a list with a method"),
    ],
)
def test_what_is_no_workload_is_told_what_it_lacks(
    written: Path, before: str, after: str, message: str
) -> None:
    assert message in refused(written, COUNTERS.replace(before, after)).message


def test_a_file_that_is_not_there_and_options_that_are_wrong(written: Path) -> None:
    (written / "c.toml").write_text('servers = ["pg:17"]\n[[workloads]]\nname = "yours.py:Counters"\n')
    with pytest.raises(UsageError, match=r"there is no workload .*yours\.py"):
        read_campaign(written / "c.toml")
    (written / "c.toml").write_text(
        'servers = ["pg:17"]\n[[workloads]]\nname = "mine.py:Counters"\noptions = {rows = 0}\n'
    )
    with pytest.raises(UsageError, match=r"options\.rows` must be at least 1"):
        read_campaign(written / "c.toml")


def test_another_text_makes_other_data(written: Path) -> None:
    """Work in Python makes it, so data that is kept is that of one source."""
    load = """Step("load", [Role("query", 1, [Script(up)], operations=1)],
                 Headline("query", "operations", "updates/s"), load=True, estimated_seconds=1),
            Step("up","""

    def made_of(source: str) -> object:
        (written / "mine.py").write_text(source.replace('Step("up",', load))
        text = (written / "c.toml").read_text()
        (written / "kept.toml").write_text(f"keep_loaded = true\n{text}")
        campaign = read_campaign(written / "kept.toml")
        (run,) = make_plan(campaign, Results(written / "results"), server).runs
        return data_made_of(run, campaign.spec)

    before = made_of(COUNTERS)
    assert before is not None and before == made_of(COUNTERS)
    assert made_of(COUNTERS.replace("series(1, 10)", "series(1, 20)")) != before


def test_it_runs_on_a_server_and_what_it_raises_there_fails_the_run(
    written: Path, pg17: Server, pgstrata: Program
) -> None:
    campaign = written / "c.toml"
    campaign.write_text(campaign.read_text().replace("pg:17", pg17.spec))
    done = pgstrata("run", campaign)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = pgstrata("query", "select workload, step, operations > 0 from steps", "--format", "csv")
    assert answer.stdout.splitlines()[1:] == ["counters,up,True"]
    assert pgstrata("run", campaign).returncode == 0  # it is there already

    source = COUNTERS.replace("rowcount}", "rowcount / 0}")
    (written / "mine.py").write_text(source)
    again = pgstrata("run", campaign)
    assert again.returncode == 2 and "another text of mine.py:Counters" in again.stderr
    failed = pgstrata("run", campaign, "--name", "other")
    place = f"{written}/mine.py, line {line_of(source, 'rowcount / 0')}: ZeroDivisionError"
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert place in failed.stderr and "Traceback" not in failed.stdout + failed.stderr


def test_an_installed_package_offers_one_by_its_name(
    tmp_path: Path, written: Path, pgstrata: Program
) -> None:
    """As pip leaves it: a module, and the metadata that names it."""
    about = written / "counters-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: counters\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{plugin.GROUP}]\ncounters = mine:Counters\nbroken = mine:Nothing\n"
    )
    listed = pgstrata("workloads", PYTHONPATH=str(written))
    assert "counters   counters that are counted up" in listed.stdout
    assert "broken     cannot be used" in listed.stdout and listed.returncode == 0
    answer = pgstrata("workloads", "counters", "--format", "json", PYTHONPATH=str(written))
    assert json.loads(answer.stdout)[0]["options"]["rows"]["default"] == 10
    assert pgstrata("workloads", "broken", PYTHONPATH=str(written)).returncode == 2
