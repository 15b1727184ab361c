"""Servers as a command line names them: labels, lists with commas, folders of installations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgstrata.campaign.file.reading import Overrides, adhoc_campaign
from pgstrata.campaign.named_servers import divide_arguments, folder_names, listed_servers, named_server
from pgstrata.campaign.study import Study
from pgstrata.errors import UsageError


@pytest.mark.parametrize(
    ("text", "spec", "label"),
    [
        ("pg:17", "pg:17", None),
        ("pg:17=new", "pg:17", "new"),
        ("path:/opt/master=master", "path:/opt/master", "master"),
        ("git:~/postgresql#REL_17_0=v17", "git:~/postgresql#REL_17_0", "v17"),
        ("new=path:/opt/master", "path:/opt/master", "new"),
        ("dsn:host=/tmp dbname=app", "dsn:host=/tmp dbname=app", None),
        ("dsn:postgresql://u@h/db?sslmode=require", "dsn:postgresql://u@h/db?sslmode=require", None),
        ("live=dsn:host=/tmp dbname=app", "dsn:host=/tmp dbname=app", "live"),
        ("tar:https://host/pg.tar.gz?key=abc", "tar:https://host/pg.tar.gz?key=abc", None),
        ("17=new", "17=new", None),
    ],
)
def test_a_label_is_taken_from_a_server(text: str, spec: str, label: str | None) -> None:
    server = named_server(text)
    assert (server.spec, server.label) == (spec, label)


def test_a_folder_with_an_equals_sign_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert named_server(f"path:{tmp_path}/a=b").label is None
    assert named_server(f"path:{tmp_path}/a=b=c").label == "c"


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("pg:16,pg:17", ["pg:16", "pg:17"]),
        ("pg:16, pg:17=new", ["pg:16", "pg:17=new"]),
        ("path:/a,/b,path:/c=x", ["path:/a", "/b", "path:/c=x"]),
        ("dsn:host=a,b dbname=c", ["dsn:host=a,b dbname=c"]),
        ("pg:16,17", ["pg:16", "17"]),
    ],
)
def test_commas_divide_servers(text: str, servers: list[str]) -> None:
    assert listed_servers([text]) == servers


def test_an_empty_server_is_refused() -> None:
    with pytest.raises(UsageError, match="empty server"):
        listed_servers(["pg:16,"])


def test_the_folder_of_an_installation_is_a_server(tmp_path: Path) -> None:
    folder = tmp_path / "master"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "postgres").touch()
    assert listed_servers([str(folder)]) == [f"path:{folder}"]
    assert listed_servers([f"{folder}=mine"]) == [f"path:{folder}=mine"]
    assert listed_servers([f"mine={folder}"]) == [f"path:{folder}=mine"]
    assert listed_servers([f"{folder},{folder}"]) == [f"path:{folder}"] * 2
    assert listed_servers([str(tmp_path)]) == [str(tmp_path)]


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["/opt/master", "/srv/patched"], ["master", "patched"]),
        (["/opt/master/inst", "/opt/patched/inst"], ["master", "patched"]),
        (["/a/x", "/a/y", "/b/x"], ["a-x", "a-y", "b-x"]),
    ],
)
def test_folders_are_told_apart_by_short_names(folders: list[str], names: list[str]) -> None:
    assert folder_names([Path(folder) for folder in folders]) == names


def test_labels_of_servers_go_into_those_of_variants() -> None:
    campaign = adhoc_campaign(
        Overrides(servers=["path:/opt/a=old", "pg:17"], configs=["default", "a1", "default+work_mem=64MB"])
    )
    assert [v.label for v in campaign.variants] == ["old", "old.a1", "old.work_mem=64MB", None, None, None]
    assert campaign.variants[0].server == "path:/opt/a"


@pytest.mark.parametrize(
    ("what", "file", "servers"),
    [
        (["study.toml"], "study.toml", []),
        (["studies/mine"], "studies/mine", []),
        (["pg:16", "pg:17"], None, ["pg:16", "pg:17"]),
        (["pg:16,pg:17=new"], None, ["pg:16", "pg:17=new"]),
        (["pg17"], None, ["pg17"]),
        (["17"], None, ["17"]),
        ([], None, []),
    ],
)
def test_arguments_are_servers_or_one_file(what: list[str], file: str | None, servers: list[str]) -> None:
    assert divide_arguments(what, []) == (None if file is None else Path(file), servers)
    assert divide_arguments(what, ["pg:15"])[1] == [*servers, "pg:15"]


def test_a_campaign_file_stands_alone() -> None:
    with pytest.raises(UsageError, match=r"study\.toml is a campaign file"):
        divide_arguments(["study.toml", "pg:17"], [])


def compared(*servers: str, **more: Any) -> Study:
    return adhoc_campaign(Overrides(servers=servers, compares=True, **more)).spec


def test_servers_alone_take_turns_until_known_on_small_data() -> None:
    spec = compared("pg:16", "pg:17")
    assert (spec.order, spec.until, spec.max_seconds) == ("interleaved", "verdict", 30.0)
    assert [(w.name, w.scale) for w in spec.workloads] == [("sysbench", "quick")]
    assert compared("pg:16", "pg:17", fields={"max_seconds": 60.0}).max_seconds == 60.0
    assert compared("pg:17", configs=["default", "a1"]).until == "verdict"


@pytest.mark.parametrize(
    ("servers", "more"),
    [
        (["pg:17"], {}),
        (["pg:16", "pg:17"], {"scale": "quick"}),
        (["pg:16", "pg:17"], {"fields": {"repeats": 2}}),
        (["pg:16", "pg:17"], {"fields": {"until": "time"}}),
        (["pg:16", "pg:17"], {"fields": {"order": "shuffled"}}),
        (["pg:16", "dsn:host=/tmp"], {}),
    ],
)
def test_another_study_is_measured_as_it_is_written(servers: list[str], more: dict[str, Any]) -> None:
    assert compared(*servers, **more).until == "time"


def test_settings_of_the_command_line_go_to_every_variant() -> None:
    campaign = adhoc_campaign(
        Overrides(servers=["pg:16", "pg:17"], configs=["a1"], settings=["work_mem=64MB", "jit=off"])
    )
    assert [v.config for v in campaign.variants] == [["a1", "work_mem=64MB", "jit=off"]] * 2


@pytest.mark.parametrize(("server", "text"), [("pg:17", "work_mem"), ("dsn:host=/tmp", "work_mem=64MB")])
def test_settings_that_cannot_be_set_are_refused(server: str, text: str) -> None:
    with pytest.raises(UsageError, match=r"--set-guc work_mem"):
        adhoc_campaign(Overrides(servers=[server], settings=[text]))
