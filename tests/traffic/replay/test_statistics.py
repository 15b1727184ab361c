"""Statistics in the place of a log: what is said where they cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.traffic.replay import statistics


def test_what_the_parser_needs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="parser, which is not installed") as raised:
        statistics.capture_statistics(str(tmp_path), tmp_path / "x.traffic")
    assert raised.value.hint == "pip install 'pgstrata[statistics]'"


def test_what_is_neither_a_folder_nor_a_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder, and no way to connect"):
        statistics.capture_statistics(str(tmp_path / "nowhere"), tmp_path / "x.traffic")
