"""Ctrl-C while a command says what is wrong: an exit code, and no stack trace."""

from __future__ import annotations

import pytest

from pgstrata.cli import main


def test_ctrl_c_while_an_error_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(error: Exception) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "report_error", interrupted)
    assert main.invoke(["runs", "--no-such-option"]) == 130
