"""The programs that are installed with pgstrata."""

from __future__ import annotations

import subprocess

import pytest

from pgstrata.driver.path import find_driver, find_tools
from pgstrata.errors import PgstrataError


def test_the_measured_program_has_no_code_for_downloads_in_it() -> None:
    marks = [b"reqwest", b"hyper", b"inferno"]
    tools, driver = find_tools().read_bytes(), find_driver().read_bytes()
    assert all(mark in tools for mark in marks)
    assert [mark for mark in marks if mark in driver] == []


@pytest.mark.program
def test_both_programs_say_their_names() -> None:
    for path in (find_driver(), find_tools()):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
        assert done.stdout.split()[0] == path.name


def test_a_variable_that_names_no_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_TOOLS", "/nowhere/tools")
    with pytest.raises(PgstrataError, match="PGSTRATA_TOOLS is /nowhere/tools"):
        find_tools()
