"""What runs record of the campaign's file: a name with which a command from the same place finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import check_study, read_campaign
from pgstrata.campaign.plan.recorded import named_file
from pgstrata.campaign.study import Study, Workload
from pgstrata.store.record import MachineRecord


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()
    file = tmp_path / "campaigns/mine.toml"
    file.write_text('servers = ["pg:17"]\n[[workloads]]\nname = "insert"\nscale = "quick"\n')
    return file


@pytest.mark.parametrize("absolute", [False, True])
def test_a_file_below_is_named_with_its_folder(file: Path, absolute: bool) -> None:
    campaign = read_campaign(file if absolute else Path("campaigns/mine.toml"))
    assert named_file(campaign) == "campaigns/mine.toml"


def test_a_file_elsewhere_is_named_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / "here").mkdir()
    monkeypatch.chdir(file.parent / "here")
    for given in (file, Path("../mine.toml")):
        name = named_file(read_campaign(given))
        assert name == str(given)
        assert read_campaign(Path(name)).name == "mine"


def test_where_there_is_none_nothing_is_named() -> None:
    study = Study(servers=["pg:17"], workloads=[Workload(name="insert", scale="quick")])
    assert named_file(check_study(study)) is None


def test_on_a_machine_of_a_fleet_only_the_name_means_something(file: Path) -> None:
    machine = MachineRecord(name="m1", kind="EPYC", fingerprint="", qualification=None)
    campaign = read_campaign(file).model_copy(update={"machine": machine})
    assert named_file(campaign) == "mine.toml"
