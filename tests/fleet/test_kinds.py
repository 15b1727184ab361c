"""Workloads and steps that are kept to a kind of machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import read_campaign
from pgstrata.errors import UsageError
from pgstrata.fleet.kinds import divided, kind_of, parts
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.fleet import qualified
from support.interleaved import write
from support.program import Program
from support.schemas import check_printed

TEXT = """
servers = ["pg:17"]
[fleet]
kinds = {kinds}
[[workloads]]
name = "sysbench"
options = {{ steps = ["point-query", "random-points=10", "update-one", "scan"] }}
[[workloads]]
name = "insert"
{more}
"""


def campaign(place: Path, kinds: str, more: str = "") -> Campaign:
    file = place / "study.toml"
    file.write_text(TEXT.format(kinds=kinds, more=more))
    return read_campaign(file)


def test_a_workload_as_a_whole(place: Path) -> None:
    divided_campaign = divided(campaign(place, '{ sysbench = "*EPYC*" }'))
    assert [kind_of(divided_campaign, workload.label) for workload in divided_campaign.workloads] == [
        "*EPYC*",
        "",
    ]
    assert parts(divided_campaign, campaign(place, "{}")) == {}


def test_steps_go_to_their_kinds_and_the_others_anywhere(place: Path) -> None:
    asked = campaign(place, '{ sysbench = { "*point*" = "*EPYC 9654*", scan = "Xeon*" } }')
    divided_campaign = divided(asked)
    assert [
        (workload.label, kind_of(divided_campaign, workload.label)) for workload in divided_campaign.workloads
    ] == [
        ("sysbench", ""),
        ("sysbench@EPYC-9654", "*EPYC 9654*"),
        ("sysbench@Xeon", "Xeon*"),
        ("insert", ""),
    ]
    assert parts(divided_campaign, asked) == {
        "sysbench": ["update-one"],
        "sysbench@EPYC-9654": ["point-query", "random-points=10"],
        "sysbench@Xeon": ["scan"],
    }
    # Everything else of the workload is as it was.
    (whole, *_), (rest, *_) = asked.workloads, divided_campaign.workloads
    assert {**whole.all_options, "steps": ["update-one"]} == rest.all_options


def test_all_steps_of_one_kind_are_the_workload(place: Path) -> None:
    divided_campaign = divided(campaign(place, '{ insert = { "*" = "*EPYC*" } }'))
    assert [
        (workload.label, kind_of(divided_campaign, workload.label)) for workload in divided_campaign.workloads
    ] == [
        ("sysbench", ""),
        ("insert", "*EPYC*"),
    ]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ('{ sysbenc = "*EPYC*" }', "there is no workload `sysbenc`"),
        ('{ sysbench = { point-quer = "*EPYC*" } }', "sysbench has no step `point-quer`"),
        ('{ sysbench = { "*" = "*EPYC*", scan = "*Xeon*" } }', "no step `scan` left for it"),
        ('{ insert = { "l.i0" = "*EPYC*" } }', "one after the other on the same data"),
    ],
)
def test_what_cannot_be_kept_to_a_kind(place: Path, kinds: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        divided(campaign(place, kinds))


def test_two_of_one_name(place: Path) -> None:
    asked = campaign(place, '{ sysbench = { scan = "EPYC" } }', 'label = "sysbench@EPYC"')
    with pytest.raises(UsageError, match="two workloads would be called `sysbench@EPYC`"):
        divided(asked)


def test_the_plan_on_paper_shows_it(place: Path, pgstrata: Program) -> None:
    campaign(place, '{ sysbench = { scan = "*EPYC*" } }')
    done = pgstrata("run", "study.toml", "--dry-run", "--fleet", "3")
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.endswith("kind of machine")
    assert any(line.startswith("sysbench@EPYC ") and line.endswith("*EPYC*") for line in lines)
    assert "sysbench@EPYC: scan" in lines
    command = ("run", "study.toml", "--dry-run", "--fleet", "3", "--format", "json")
    printed = pgstrata(*command).stdout
    check_printed(command, printed)
    record = json.loads(printed)
    assert record["asked"] == 3 and "*EPYC*" in {comparison["kind"] for comparison in record["comparisons"]}
    assert record["forecasts"][0]["machines"] == 1


def test_where_no_machine_is_of_the_kind(place: Path, pgstrata: Program, pg17: Server) -> None:
    """What any machine may measure is measured, and the rest refused."""
    more = 'margin = 0.9\n[fleet]\nkinds = { sysbench = { point-query = "*, Linux *", "*" = "*EPYC 1*" } }'
    qualified(place, "local-1")
    file = write(place, pg17, ["point-query", "read-only-count"], seconds=1, slice_=0.1, more=more)
    done = pgstrata("run", file, "--fleet", "local:1", "--no-report")
    waits = "sysbench@EPYC-1, repeat 1 waits: no machine is of the kind '*EPYC 1*'; there is: "
    assert done.returncode == 2 and waits in done.stderr, done.stdout + done.stderr
    assert done.stderr.index(waits) < done.stderr.index("is home")  # said at once
    assert "error: sysbench@EPYC-1, repeat 1: no machine is of the kind '*EPYC 1*'" in done.stderr
    runs = Results(place / "results").runs()
    assert [(run.workload, run.done) for run in runs] == [("sysbench@Linux", True)] * 2
    assert {step.name for run in runs for step in run.record.steps if step.measured} == {"point-query"}
