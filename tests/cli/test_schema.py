"""Every command that prints JSON has a schema, and prints by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import typer

from pgstrata.bundle.packing import unpacked
from pgstrata.cli import main
from pgstrata.cli.reference import commands_of
from pgstrata.cli.schema import DIALECT, places_by_command, schema_of
from support.runs import make_campaign
from support.schemas import check_printed, validator

BUNDLES = Path(__file__).parents[2] / "benchmarks/results/bundles"


def test_every_command_that_prints_json_has_a_schema() -> None:
    commands = dict(commands_of(typer.main.get_command(main.app), ()))
    with_json = [
        name
        for name, command in commands.items()
        for option in command.params
        if "--format" in option.opts and "json" in set(option.type_descriptor.annotation)
    ]
    places = places_by_command()
    assert sorted(with_json) == sorted(places) and len(with_json) > 20
    for name, types in places.items():
        schema = schema_of(name, types)
        assert schema["$schema"] == DIALECT
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.fixture(scope="module", params=sorted(BUNDLES.glob("*.pgstrata")), ids=lambda file: file.stem)
def results(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The results of a committed bundle, unpacked."""
    with unpacked(request.param) as bundle:
        yield bundle.folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns what a command printed as JSON, by its schema."""
    line = [*arguments, "--format", "json"]
    code = main.invoke(line)
    output = capsys.readouterr()
    assert code in (0, 1, 3), output.err
    assert output.out
    check_printed(line, output.out)
    return output.out


def test_results_of_bundles_are_printed_by_the_schemas(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--results", str(results))
    runs = json.loads(printed(capsys, "runs", *where))
    printed(capsys, "show", runs[0]["run_id"], *where)
    printed(capsys, "query", "select * from steps limit 3", *where)
    base, other, *_ = dict.fromkeys(run["variant"] for run in runs)
    record = json.loads(printed(capsys, "show", runs[-1]["run_id"], *where))
    by = ("--by", "instructions") if record.get("counted") else ()
    compared = json.loads(printed(capsys, "compare", base, other, *by, *where))
    assert compared[0]["steps"]
    printed(capsys, "check", "--base", base, "--fail-slower", "50%", *by, *where)


def test_bundles_are_verified_by_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "verify", str(BUNDLES / "sysbench-counts.pgstrata"))


def test_a_key_that_is_not_declared_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_campaign(tmp_path / "results", variants=["a", "b"])
    (compared,) = json.loads(printed(capsys, "compare", "a", "b", "--results", str(tmp_path / "results")))
    assert validator("compare").is_valid([compared])
    assert not validator("compare").is_valid([compared | {"new": 1}])
    first, *_ = compared["steps"]
    assert not validator("compare").is_valid([compared | {"steps": [first | {"new": 1}]}])
    assert not validator("compare").is_valid([compared | {"steps": [first | {"ratio": "1"}]}])


def test_schemas_are_printed_and_other_names_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.invoke(["schema"]) == 0
    assert "config explain" in capsys.readouterr().out.splitlines()
    assert main.invoke(["schema", "config", "explain"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "pgstrata config explain --format json"
    assert main.invoke(["schema", "comparee"]) == 2
    error = capsys.readouterr().err
    assert "comparee is no command that prints JSON" in error and "did you mean `compare`?" in error
