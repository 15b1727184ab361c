"""Tests that start programs say so: `make quick` runs those without a mark, and these start nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from support.needs import needs


@pytest.fixture
@needs("program")
def echo() -> str:
    return subprocess.check_output(["echo", "here"], text=True)


def test_a_program_without_a_mark_fails_the_test_that_starts_it() -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"starts true without a mark: add @pytest\.mark\.program"
    ):
        subprocess.run(["true"])
    with pytest.raises(pytest.fail.Exception, match=r"starts postgres .* add @pytest\.mark\.server"):
        subprocess.Popen(["/usr/lib/postgresql/17/bin/postgres", "--version"])
    with pytest.raises(pytest.fail.Exception, match="another process"):
        os.fork()


@pytest.mark.program
def test_a_test_with_a_mark_starts_programs() -> None:
    assert subprocess.run(["true"]).returncode == 0


def test_a_fixture_marks_the_tests_that_use_it(echo: str, request: pytest.FixtureRequest) -> None:
    assert echo == "here\n"
    assert request.node.get_closest_marker("program")


def test_a_fixture_of_a_fixture_marks_them_too(request: pytest.FixtureRequest, start: object) -> None:
    assert request.node.get_closest_marker("program")


@pytest.fixture
def start(echo: str) -> str:
    return echo


@pytest.fixture(scope="module")
@needs("program")
def ends_with_a_program() -> Iterator[None]:
    yield
    subprocess.run(["true"], check=True)


def test_a_fixture_may_live_longer_than_the_test_with_its_mark(ends_with_a_program: None) -> None:
    """It ends after the next test, the last of this file, which has no mark and starts nothing."""


def test_an_unmarked_test_is_not_blamed_for_what_ends_after_it() -> None:
    assert True
