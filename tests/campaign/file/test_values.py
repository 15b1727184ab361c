"""Values of campaigns and options that no machine could mean: each is refused, and its key named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgstrata.campaign.file.reading import Overrides, adhoc_campaign, read_campaign
from pgstrata.campaign.study import ProfileSpec, Study
from pgstrata.cli import main
from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog

HEAD = 'servers = ["pg:12", "pg:17"]\n'
WORKLOAD = '[[workloads]]\nname = "{name}"\n[workloads.options]\n{options}\n'


def refused(folder: Path, head: str = "", name: str = "insert", options: str = "") -> str:
    file = folder / "c.toml"
    file.write_text(HEAD + head + "\n" + WORKLOAD.format(name=name, options=options))
    with pytest.raises(UsageError) as caught:
        read_campaign(file)
    return caught.value.message


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("waits = inf", "`waits` is inf"),
        ("waits = nan", "`waits` is nan"),
        ("waits = 1e-300", "`waits` is not right: it is 0 or at least 0.01"),
        ('margin = "3"', "`margin` must be a number"),
        ('margin = "0.001%"', "`margin` must be at least 0.0001"),
        ("repeats = 99999999999999999999", "`repeats` is a number beyond 64 bits"),
        (f"repeats = {'9' * 10_000}", "holds a number that is too long"),
        (f"repeats = 0x{'f' * 10_000}", "`repeats` is a number beyond 64 bits"),
        ("max_seconds = 1e300", "`max_seconds` must be at most 2592000.0, not 1e+300"),
        ("max_seconds = 1e-300", "`max_seconds` must be at least 0.1"),
        ("margin = 1e-300", "`margin` must be at least 0.0001"),
        ("server_cpus = [-1]", "`server_cpus[1]` must be at least 0"),
        ("driver_cpus = [99999999]", "`driver_cpus[1]` must be at most 65535"),
        ('base = ""', "`base` must not be empty"),
        ('data_dir = ""', "`data_dir` must not be empty"),
        ('results = "a\\u0000b"', "`results` holds a NUL"),
        ('"a\\u0000b" = 1', "holds a NUL"),
        (f"waits = {'[' * 5000}{']' * 5000}", "is nested more than 32 levels deep"),
        (f"waits = {'[' * 40}{']' * 40}", "is nested more than 32 levels deep"),
        (f"{'x.' * 100}y = 1", "is nested more than 32 levels deep"),
        ('[[variants]]\nserver = "pg:14"\nenv = { "A=B" = "c" }', "'A=B' is no name of a variable"),
        ('[[variants]]\nserver = "pg:14"\nenv = { "" = "c" }', "is no name of a variable"),
        ('[[variants]]\nserver = "pg:14"\nlabel = ""', "`variants[1].label` must not be empty"),
        ('[[variants]]\nserver = ""', "`variants[1].server` must not be empty"),
        ('[[variants]]\nserver = "path:~no-such-user/pg"', "knows no such user"),
        ('[[variants]]\nserver = "pg:14"\nconfig = "~no-such-user/a.conf"', "knows no such user"),
        (f"configs = [{', '.join(['[]'] * 600)}]", "1,200 variants; a campaign has at most 1,000"),
        (f"repeats = 1000\nconfigs = [{', '.join(['[]'] * 100)}]", "200,000 runs; a campaign has at most"),
    ],
)
def test_a_value_of_a_campaign_that_makes_no_sense(tmp_path: Path, head: str, message: str) -> None:
    assert message in refused(tmp_path, head)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("insert", "seconds = 1e300", "options.seconds` must be at most 2592000.0, not 1e+300"),
        ("sysbench", "read_seconds = 1e-300", "options.read_seconds` must be at least 0.001"),
        ("pgbench", "rate = 1e20", "options.rate` must be at most 1000000000.0"),
        ("pgbench", "rate = 100000000000000000000", "options.rate` is a number beyond 64 bits"),
        ("pgbench", "scale = '1e400%'", "options.scale` must be a whole number"),
        ("pgbench", f"scale = '{'9' * 400}%'", "options.scale` must be a whole number"),
        ("pgbench", "clients = [1, 100000]", "must be at most 10000, not 100000"),
        ("pgbench", f"scripts = ['a@{'9' * 5000}']", "is out of range (0 to 2147483647)"),
        ("pgbench", "define = { x = inf }", "options.define.x` is inf"),
        ("insert", "steps = ['²:range']", "is not `R:range` or `R:point`"),
        ("insert", "steps = ['99999999999999999999:range']", "is not `R:range` or `R:point`"),
        ("insert", "clients = 1000\npartitions = 10000", "partitions of all tables together"),
        ("tpcds", "scale = 1e-300", "options.scale` must be at least 0.001"),
        ("fulltext", "query_count = 100000\npasses = 1000", "query_count × (passes + warmup) is at most"),
        ("fulltext", "corpus = '~no-such-user/a.mbox'", "knows no such user"),
    ],
)
def test_an_option_that_makes_no_sense(tmp_path: Path, name: str, options: str, message: str) -> None:
    if name == "fulltext" and "corpus" in options:
        # Which file it is is asked when the phases are made.
        file = tmp_path / "c.toml"
        file.write_text(HEAD + WORKLOAD.format(name=name, options=options))
        chosen = read_campaign(file).workloads[0]
        with pytest.raises(UsageError, match=message):
            chosen.workload.phases(chosen.options, NEWEST)
        return
    assert message in refused(tmp_path, name=name, options=options)


def test_a_margin_may_be_written_in_per_cent(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(HEAD + 'margin = "0.5%"\n' + WORKLOAD.format(name="insert", options=""))
    assert read_campaign(file).spec.margin == pytest.approx(0.005)


def _unlimited(schema: dict[str, Any]) -> list[str]:
    """Keys of a JSON schema whose numbers have no end at one side."""
    keys = []
    for key, value in schema["properties"].items():
        for kind in (value, *value.get("anyOf", []), value.get("items", {})):
            if kind.get("type") in ("integer", "number"):
                low = {"minimum", "exclusiveMinimum"} & kind.keys()
                high = {"maximum", "exclusiveMaximum"} & kind.keys()
                if not (low and high):
                    keys.append(key)
    return keys


@pytest.mark.parametrize("name", catalog.names())
def test_every_number_of_a_workload_has_two_limits(name: str) -> None:
    assert _unlimited(catalog.find(name).Options.model_json_schema()) == []


def test_every_number_of_a_campaign_has_two_limits() -> None:
    assert _unlimited(Study.model_json_schema()) == []
    assert _unlimited(ProfileSpec.model_json_schema()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seconds=inf", "--set seconds=inf is inf"),
        ("seconds=1e300", "must be at most"),
        (f"rows={'9' * 10_000}", "holds a number that is too long"),
        (f"rows={'[' * 5000}", "is nested more than 32 levels deep"),
        ('steps="a\\u0000"', "holds a NUL"),
    ],
)
def test_a_value_of_set_that_makes_no_sense(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        adhoc_campaign(Overrides(servers=["pg:17"], workloads=["insert"], sets=[text]))
    assert message in caught.value.message


@pytest.mark.server
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "/dev/zero"],
        ["run", "a\0b"],
        ["run", "\udcff.toml"],
        ["run", "--server", "pg:17", "--config", "/dev/zero/x.conf"],
        ["run", "--server", "path:~no-such-user"],
        ["run", "--server", "pg:17", "--waits", "nan"],
        ["run", "--server", "pg:17", "--margin", "3"],
        ["run", "--server", "pg:17", "--seed", "9" * 10_000],
        ["run", "--server", "pg:17", "--script", "/dev/zero", "--dry-run"],
        ["config", "explain", "~no-such-user/a.conf", "--server", "pg:17"],
        ["noise", "--minutes", "nan"],
        ["noise", "--minutes", "inf"],
        ["noise", "--slice-seconds", "1e-300"],
        ["bench", "-T", "1e300"],
        ["bench", "-T", "nan"],
        ["bench", "-R", "1e20"],
        ["bench", "-c", "99999999999999999999"],
        ["bench", "-t", "99999999999999999999"],
        ["bench", "--random-seed", "99999999999999999999"],
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.invoke(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "defect" not in err
    assert len(err) < 1000


def test_an_error_obeys_no_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('"\\u001b[31mred" = 1\n')
    assert main.invoke(["run", str(file)]) == 2
    assert "\x1b" not in capsys.readouterr().err
