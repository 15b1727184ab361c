"""`pgstrata mcp`, asked by the client of its SDK over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import TextContent

from pgstrata.assist import command
from pgstrata.assist.answers import comparisons_of
from pgstrata.assist.server import Allowed
from pgstrata.cli.main import invoke
from pgstrata.errors import UsageError
from pgstrata.judge.compare import margin_of
from pgstrata.page.results import read_results
from pgstrata.server.find.model import Server
from support.commands import spec
from support.runs import VARIANTS, make_campaign

READING = {"list_results", "explain_verdict"}
MEASURING = {"compare_servers", "judge_query", "count_instructions"}


@asynccontextmanager
async def opened(place: Path, *options: str) -> AsyncIterator[Client]:
    """A client of `pgstrata mcp` in a folder, with the environment of the test."""
    import os

    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "pgstrata", "mcp", *options], env=dict(os.environ), cwd=place
    )
    async with Client(parameters) as client:
        yield client


def asks(place: Path, *options: str) -> Callable[[Callable[[Client], Awaitable[Any]]], Any]:
    """Calls a function with a client."""

    def call(function: Callable[[Client], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with opened(place, *options) as client:
                return await function(client)

        return asyncio.run(run())

    return call


async def ask(client: Client, name: str, **arguments: Any) -> Any:
    """Calls a tool and returns its structured answer."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content.get("result", result.structured_content)


async def refused(client: Client, name: str, **arguments: Any) -> str:
    """Calls a tool and returns the sentence with which it refuses."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert result.is_error and isinstance(content, TextContent)
    assert "Traceback" not in content.text
    return content.text


@pytest.mark.program
def test_results_are_listed_and_explained_without_a_way_to_measure(place: Path) -> None:
    make_campaign(place / "results", repeats=3, seconds=4, speeds={VARIANTS[1]: 0.8})

    async def question(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING
        for tool in tools.values():
            assert tool.annotations is not None and tool.annotations.read_only_hint
            assert tool.output_schema is not None and tool.description
        (campaign,) = await ask(client, "list_results")
        assert campaign["campaign"] == "insert-cached" and campaign["variants"] == list(VARIANTS)
        assert campaign["runs"] == 6
        answer = await ask(client, "explain_verdict", base=VARIANTS[0], other=VARIANTS[1])
        results = read_results(place / "results")
        expected = {step.step: step.verdict for step in results.comparisons[0].steps}
        assert {step["step"]: step["word"] for step in answer["steps"]} == {
            name: verdict.word for name, verdict in expected.items()
        }
        slower = next(step for step in answer["steps"] if step["word"] == "slower")
        assert f"is slower than {VARIANTS[0]} at {slower['step']}" in slower["sentence"]
        assert slower["change_percent"] == pytest.approx(100 * (expected[slower["step"]].ratio - 1), abs=1e-3)
        assert slower["margin_percent"] == pytest.approx(100 * margin_of(results.runs))
        step_answer = await ask(client, "explain_verdict", base="pg12", other="pg17", step="l.x")
        assert [step["step"] for step in step_answer["steps"]] == ["l.x"]

    before = sorted(path for path in place.rglob("*") if path.is_file())
    asks(place)(question)
    new_names = {path.name for path in place.rglob("*") if path.is_file()} - {path.name for path in before}
    assert all(name.startswith(".") or "catalogue" in name for name in new_names), new_names


@pytest.mark.program
def test_a_wrong_question_is_answered_with_the_next_step(place: Path) -> None:
    make_campaign(place / "results", seconds=3)

    async def question(client: Client) -> None:
        message = await refused(client, "explain_verdict", base="pg12", other="pg18")
        assert "no variant, run or folder is called pg18. Next: " in message and VARIANTS[0] in message
        message = await refused(client, "explain_verdict", base="--help", other="pg17")
        assert "called --help" in message
        message = await refused(client, "explain_verdict", base="pg12", other="pg17", step="l.x9")
        assert "l.x9" in message and "did you mean" in message
        message = await refused(client, "explain_verdict", base="pg12", other="pg17", by="instructions")
        assert "nothing was counted" in message
        assert "by" in await refused(client, "explain_verdict", base="a", other="b", by="guess")
        assert "compare_servers" in await refused(client, "compare_servers", servers=["pg:16", "pg:17"])

    asks(place)(question)

    async def nothing(client: Client) -> None:
        assert "no results folder" in await refused(client, "list_results")

    asks(place, "--results", "nowhere")(nothing)


def test_only_servers_that_are_published_or_named_may_be_measured(tmp_path: Path) -> None:
    servers = ("path:/opt/patched=patched", "dsn:host=/tmp")
    allowed = Allowed(tmp_path, True, servers, (), 60)
    assert allowed.server("pg:17") == "pg:17"
    assert allowed.server("release:9.0.23") == "release:9.0.23"
    assert allowed.server("patched") == allowed.server("path:/opt/patched") == servers[0]
    assert allowed.server("dsn:host=/tmp") == servers[1]
    for text in ("path:/tmp", "dsn:host=/var", "git:/x#y", "src:/x", "tar:/x", "/opt/patched", "--fresh", ""):
        with pytest.raises(UsageError, match="may not be measured"):
            allowed.server(text)
    with pytest.raises(UsageError, match="not a version"):
        allowed.server("pg:17 --fresh")


@pytest.mark.server
def test_servers_are_measured_where_a_person_allows_it(place: Path, pg12: Server, pg17: Server) -> None:
    allowed = f"{spec(pg17)}=newer"

    async def question(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING | MEASURING
        message = await refused(
            client, "compare_servers", servers=["pg:12", "path:/usr"], steps=["point-query"]
        )
        assert "may not be measured" in message and "newer" in message
        message = await refused(client, "compare_servers", servers=["pg:12", "newer"], steps=["pont-query"])
        assert "did you mean point-query" in message
        measured = await ask(
            client, "compare_servers", servers=["pg:12", "newer"], steps=["hot-points"], seconds=5
        )
        (comparison,) = measured["comparisons"]
        assert (comparison["base"], comparison["other"]) == (pg12.label, "newer")
        (step,) = comparison["steps"]
        assert step["step"] == "hot-points" and step["word"] in ("slower", "faster", "same", "unclear")
        assert bool(step["next_step"]) == (step["word"] == "unclear")
        assert Path(measured["page"]).is_file() and not measured["failed"]
        assert measured["campaign"] in {c["campaign"] for c in await ask(client, "list_results")}

    asks(place, "--allow-run", "--server", allowed, "--max-seconds", "400")(question)


@pytest.mark.server
def test_a_query_is_judged_with_its_data(place: Path, pg12: Server, pg17: Server) -> None:
    assert pg12.bin_dir and pg17.bin_dir
    data = "CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 20000) g;\n"
    hostile = "COPY (SELECT 1) TO PROGRAM 'touch /tmp/pgstrata-was-here';"

    async def question(client: Client) -> None:
        asked = {"servers": ["pg:12", "pg:17"], "setup_sql": data, "seconds": 5}
        measured = await ask(client, "judge_query", sql="SELECT count(*) FROM t", **asked)
        (comparison,) = measured["comparisons"]
        assert [step["step"] for step in comparison["steps"]] and not measured["failed"]
        assert measured["campaign"].startswith("asked-")
        result = await client.call_tool("judge_query", {"sql": hostile, **asked})
        assert result.is_error or result.structured_content
        assert not Path("/tmp/pgstrata-was-here").exists()

    asks(place, "--allow-run", "--max-seconds", "400")(question)
    asked = place / "results/.asked"
    assert {oct(p.stat().st_mode & 0o777) for p in asked.rglob("*.sql")} == {"0o600"}
    assert {oct(p.stat().st_mode & 0o777) for p in [asked, *asked.iterdir()]} == {"0o700"}


def postgres_below() -> list[psutil.Process]:
    """Servers that were started by what this test has started."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if process.is_running() and process.name() == "postgres"]


async def started(within_seconds: float = 90) -> list[psutil.Process]:
    """Waits until servers run, and returns them."""
    async with asyncio.timeout(within_seconds):
        while not (processes := postgres_below()):
            await asyncio.sleep(0.2)
    return processes


async def gone(servers: list[psutil.Process], within_seconds: float = 60) -> None:
    async with asyncio.timeout(within_seconds):
        while any(server.is_running() for server in servers):
            await asyncio.sleep(0.2)


ENDLESS: dict[str, Any] = {"servers": ["pg:12", "pg:17"], "steps": ["scan"], "seconds": 600}


@pytest.mark.server
def test_an_answer_that_takes_too_long_is_ended_and_leaves_nothing(
    place: Path, pg12: Server, pg17: Server
) -> None:
    assert pg12.bin_dir and pg17.bin_dir

    async def question(client: Client) -> None:
        answer = asyncio.ensure_future(refused(client, "compare_servers", **ENDLESS))
        servers = await started()
        assert "no answer within 20 s. Next: " in await answer
        await gone(servers, within_seconds=10)

    asks(place, "--allow-run", "--max-seconds", "20")(question)


@pytest.mark.server
def test_one_measurement_at_a_time_and_a_cancelled_one_ends(place: Path, pg12: Server, pg17: Server) -> None:
    assert pg12.bin_dir and pg17.bin_dir

    async def question(client: Client) -> None:
        first = asyncio.ensure_future(client.call_tool("compare_servers", ENDLESS))
        servers = await started()
        assert "another measurement is under way" in await refused(client, "compare_servers", **ENDLESS)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await gone(servers)
        async with asyncio.timeout(60):
            while "under way" in await refused(client, "compare_servers", **{**ENDLESS, "steps": ["none"]}):
                await asyncio.sleep(0.2)

    asks(place, "--allow-run", "--max-seconds", "300")(question)


@pytest.mark.server
def test_a_client_that_leaves_ends_what_it_asked_for(place: Path, pg12: Server, pg17: Server) -> None:
    assert pg12.bin_dir and pg17.bin_dir

    async def run() -> list[psutil.Process]:
        async with opened(place, "--allow-run") as client:
            asked = asyncio.ensure_future(client.call_tool("compare_servers", ENDLESS))
            servers = await started()
            asked.cancel()
            return servers

    asyncio.run(gone(asyncio.run(run())))


@pytest.mark.server
def test_a_measurement_ends_with_the_server_that_was_killed(place: Path, pg12: Server, pg17: Server) -> None:
    assert pg12.bin_dir and pg17.bin_dir

    async def run() -> list[psutil.Process]:
        async with opened(place, "--allow-run") as client:
            asked = asyncio.ensure_future(client.call_tool("compare_servers", ENDLESS))
            servers = await started()
            # Among what else this process has started, such as the one that forks for other tests.
            (server,) = (child for child in psutil.Process().children() if "mcp" in child.cmdline())
            measuring = server.children()
            server.kill()
            with pytest.raises((MCPError, asyncio.CancelledError)):
                await asked
            return [*servers, *measuring]

    asyncio.run(gone(asyncio.run(run()), within_seconds=20))


def test_without_its_package_one_sentence_has_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert invoke(["mcp"]) == 2
    sentence, step = capsys.readouterr().err.splitlines()
    assert "needs the package mcp" in sentence and step.strip() == "pip install 'pgstrata[mcp]'"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--server", "pg:17"], "add --allow-run"),
        (["--allow-run", "--server", "pg17"], "did you mean pg:17"),
        (["--allow-run", "--setup", "nowhere.sql"], "check the path"),
        (["--allow-run", "--max-seconds", "1e9"], "900 is usual"),
        (["--max-seconds", "0"], "--help"),
    ],
)
def test_options_are_checked(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["mcp", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_verdict_without_bounds_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    step = {
        "workload": "w",
        "step": "s",
        "word": "unclear",
        "ratio": 1.0,
        "low": 0.0,
        "high": None,
        "confidence": 0.95,
        "margin": 0.02,
        "base_rate": None,
        "other_rate": None,
        "unit": "queries/s",
        "reason": "one run each",
        "single_run": True,
    }
    ((verdict,),) = (
        comparison.steps for comparison in comparisons_of([{"base": "a", "other": "b", "steps": [step]}])
    )
    assert (verdict.low_percent, verdict.high_percent) == (None, None)
    assert verdict.sentence == "It is unclear whether b differs from a at s: one run each."
    assert verdict.next_step.startswith("Let the servers take turns")
    assert json.loads(verdict.model_dump_json())["base"] is None
