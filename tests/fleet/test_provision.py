"""Servers on their way: made on one machine, there on another, with the ordinary cache of each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import make_plan
from pgstrata.errors import ServerError
from pgstrata.fleet.portable import opened, portable
from pgstrata.fleet.provision import finder, install, packed_tree, provide, without_files
from pgstrata.fleet.tasks import Provide, Provided, Wanted
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.lookup import look_up
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.tree import git, serving

TEXT = 'servers = ["{spec}"]\n[[workloads]]\nname = "sysbench"\n'


def sent(place: Path, spec: str) -> Provide:
    """What the client asks of the machine that is to make a server."""
    file = place / "study.toml"
    file.write_text(TEXT.format(spec=spec))
    campaign = read_campaign(file)
    plan = make_plan(
        campaign,
        Results(place / "results"),
        lambda spec, how: look_up(spec, how, folder=campaign.folder),
        elsewhere=True,
    )
    (variant,) = plan.variants
    wanted = Wanted(spec=variant.server.spec, variant=0)
    tree = packed_tree(wanted.spec, place, lambda text: None) if spec.startswith("git:") else None
    return Provide(campaign=portable(plan, plan.campaign.workloads[0]), server=wanted, topic="t", tree=tree)


def on(place: Path, name: str, task: Provide, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """The campaign on a machine with a cache of its own."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / name))
    return opened(task.campaign, place / f"{name}-results")


def runs(server: Server) -> str:
    assert server.bin_dir is not None
    return subprocess.run(
        [server.bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout


def test_a_prebuilt_one(place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    task = sent(place, pg17.spec)
    provided = provide(task, opened(task.campaign, place / "results"), lambda text: None, lambda: None)
    assert provided.folder == f"pg-{pg17.version}" and provided.files.content
    campaign = on(place, "two", task, monkeypatch)
    install(provided)
    server = finder(campaign, [without_files(provided)])(pg17.spec, None)
    assert server.bin_dir == place / "two" / "servers" / provided.folder / "bin"
    assert pg17.version in runs(server)
    assert acquire(pg17.spec).bin_dir == server.bin_dir  # as any run there finds it
    install(provided)  # a second time is nothing
    assert not list((place / "two" / "servers").glob(".*"))


def test_one_from_source_of_the_clients(place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = serving(place / "repo", pg17, "work_mem = '9MB'")
    head = git(repo, "rev-parse", "HEAD")
    task = sent(place, f"git:{repo}#{head}")
    # The tree travels: the machine has no such repository.
    repo.rename(place / "elsewhere")
    messages: list[str] = []
    provided = provide(task, on(place, "one", task, monkeypatch), messages.append, lambda: None)
    assert provided.folder.startswith("built-") and any("building" in text for text in messages)
    assert provided.server.built is not None and provided.server.built.source["commit"] == head
    campaign = on(place, "two", task, monkeypatch)
    install(provided)
    (variant,) = campaign.variants
    server = finder(campaign, [without_files(provided)])(variant.server, campaign.build_of(variant))
    assert pg17.version in runs(server) and server.built == provided.server.built
    (sample,) = (place / "two/servers" / provided.folder).rglob("postgresql.conf.sample")
    assert "9MB" in sample.read_text()
    # Kept by digest of what it was built from: the machine that made it has it already.
    again = provide(task, on(place, "one", task, monkeypatch), messages.append, lambda: None)
    assert again.server == provided.server and len([t for t in messages if t.startswith("building")]) == 1


def damaged(provided: Provided) -> Provided:
    content = bytearray(provided.files.content)
    content[len(content) // 3] ^= 1
    files = msgspec.structs.replace(provided.files, content=bytes(content))
    return msgspec.structs.replace(provided, files=files)


def test_what_is_damaged_or_no_server_is_not_installed(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = serving(place / "repo", pg17, "")
    task = sent(place, f"git:{repo}#HEAD")
    provided = provide(task, on(place, "one", task, monkeypatch), lambda text: None, lambda: None)
    on(place, "two", task, monkeypatch)
    with pytest.raises(ServerError, match="damaged on its way"):
        install(damaged(provided))
    with pytest.raises(ServerError, match="is no server"):
        install(msgspec.structs.replace(provided, folder="built-another"))
    with pytest.raises(ServerError, match="no name of a folder"):
        install(msgspec.structs.replace(provided, folder="../outside"))
    assert list((place / "two/servers").iterdir()) == []
    campaign = on(place, "two", task, monkeypatch)
    (variant,) = campaign.variants
    with pytest.raises(ServerError, match="not in the cache of this machine"):
        finder(campaign, [without_files(provided)])(variant.server, campaign.build_of(variant))
