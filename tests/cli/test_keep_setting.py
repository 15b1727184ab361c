"""`--keep-setting` of commands that put their campaign together: bisect, patch and noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.study import Variant
from pgstrata.cli.main import invoke
from pgstrata.errors import UsageError
from pgstrata.measure.two_servers import TwoServers
from pgstrata.search.bisect.hunt import SearchSettings
from pgstrata.search.commands.bisect import work_of

VARIANT = Variant(server="pg:17")


def two(keep: list[str] | None) -> TwoServers:
    work = work_of(["point-query"], "sysbench", None, None, 1.0, 1, None, keep=keep)
    return TwoServers(work, VARIANT, VARIANT, "one", Path("results"))


def test_the_campaign_of_two_servers_keeps_what_is_named() -> None:
    assert two(["archive_command"]).campaign().spec.keep_settings == ["archive_command"]
    assert two(None).campaign().spec.keep_settings == []


def test_what_is_never_left_out_is_refused() -> None:
    with pytest.raises(UsageError, match="no setting of that name is ever left out"):
        two(["work_mem"]).campaign()


def test_a_search_with_other_kept_settings_is_another_one() -> None:
    plain, kept = (two(keep).work.question() for keep in (None, ["archive_command"]))
    assert "keep_settings" not in plain  # searches from before this option go on
    assert plain != kept


@pytest.mark.parametrize(
    "command",
    [
        ["bisect", "--server", "pg:17", "--configs", "default,default+a1", "--step", "point-query"],
        ["noise", "--server", "pg:17", "--step", "point-query"],
        ["noise", "--server", "pg:17", "--step", "point-query", "--by", "instructions"],
    ],
)
def test_commands_say_what_they_cannot_keep(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = invoke([*command, "--results", str(tmp_path / "r"), "--keep-setting", "work_mem"])
    assert code == 2
    assert "keep setting work_mem: no setting of that name is ever left out" in capsys.readouterr().err


def test_the_settings_of_a_search_are_those_of_its_work(tmp_path: Path) -> None:
    from pgstrata.search.bisect import line

    ends = line.configs(["default", "default+a1"], VARIANT)
    search = SearchSettings(ends, two(["archive_command"]).work, tmp_path, 0.01, None, False, "rate")
    assert search.question()["keep_settings"] == ["archive_command"]
