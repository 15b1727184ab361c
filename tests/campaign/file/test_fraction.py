"""`--fraction`: the sizes of a campaign file, smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.campaign.file.reading import Overrides, read_campaign, scaled_down
from pgstrata.cli.main import invoke
from pgstrata.errors import UsageError

ROOT = Path(__file__).parents[3]


def options(file: str, **overrides: Any) -> dict[str, Any]:
    campaign = read_campaign(ROOT / "campaigns" / file, Overrides(**overrides))
    (chosen,) = campaign.workloads
    return chosen.all_options


def test_sizes_and_clients_of_a_file() -> None:
    whole, part = options("published/sb-48core.toml"), options("published/sb-48core.toml", fraction=0.04)
    assert {key for key in whole if whole[key] != part[key]} == {"rows", "clients"}
    assert (part["rows"], part["clients"], part["tables"]) == (400_000, 2, 8)


def test_lists_of_clients_stay() -> None:
    """Steps are called after them."""
    part = options("published/tprocc-8core-w100.toml", fraction=0.05)
    assert (part["warehouses"], part["clients"]) == ([5], [1, 6])


def test_set_wins() -> None:
    assert options("published/sb-8core.toml", fraction=0.5, sets=["rows=7"])["rows"] == 7


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=9), st.floats(1e-9, 1))
def test_one_is_always_left(sizes: list[int], fraction: float) -> None:
    scaled = scaled_down({"warehouses": sizes, "rows": sizes[0], "seconds": 9}, fraction)
    assert scaled["seconds"] == 9 and 1 <= scaled["rows"] <= sizes[0]
    assert len(set(scaled["warehouses"])) == len(scaled["warehouses"])
    assert min(scaled["warehouses"]) >= 1 and max(scaled["warehouses"]) <= max(sizes)


def test_wrong_values_stay_for_the_message() -> None:
    assert scaled_down({"rows": "many", "clients": True}, 0.5) == {"rows": "many", "clients": True}


def test_a_file_without_sizes(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('servers = ["pg:17"]\n[[workloads]]\nname = "insert"\nscale = "quick"\n')
    with pytest.raises(UsageError, match="no workload says a size"):
        read_campaign(file, Overrides(fraction=0.5))


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "campaigns/published/sb-8core.toml")
    assert invoke(["run", file, "--fraction", "2", "--dry-run"]) == 2
    assert "not a share between 0 and 100 %" in capsys.readouterr().err
