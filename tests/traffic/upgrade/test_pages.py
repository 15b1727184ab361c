"""Each question has a page of its own below the folder that it shares with others about the same dump."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.find.model import Server
from pgstrata.traffic.upgrade.planned.asked import Asked
from pgstrata.traffic.upgrade.planned.calls import PlannerStatistics
from pgstrata.traffic.upgrade.planned.outcome import PlannedServer, PlannedUpgrade
from pgstrata.traffic.upgrade.planned.page import write_planned_page
from pgstrata.traffic.upgrade.planned.restore import Restored
from pgstrata.traffic.upgrade.question import Question
from pgstrata.traffic.upgrade.tried import question_digest


@pytest.fixture
def question(tmp_path: Path) -> Question:
    for name in ("app.sql", "monday.traffic", "sunday.traffic", "stats.sql", "more.sql"):
        (tmp_path / name).write_text(f"-- {name}\n")
    return Question(
        base="13",
        targets=("17",),
        dumps=(tmp_path / "app.sql",),
        logs=(tmp_path / "monday.traffic",),
        folder=tmp_path / "upgrade",
        statistics=tmp_path / "stats.sql",
    )


@pytest.mark.long
def test_the_page_of_another_log_replaces_none(question: Question, tmp_path: Path) -> None:
    servers = [
        PlannedServer(name, Server(f"pg:{name}", name, name, number, bin_dir=tmp_path), NONE, {}, {})
        for name, number in (("13", 130022), ("17", 170006))
    ]
    nothing = Asked((), 0.0, 0, "the log")
    pages = []
    for name in ("monday", "sunday", "monday"):
        file = tmp_path / f"{name}.traffic"
        asked = replace(question, logs=(file,))
        planned = PlannedUpgrade(asked, nothing, PlannerStatistics((), ()), servers, (), file)
        pages.append(write_planned_page(planned, "pgstrata upgrade"))
    monday, sunday, again = pages
    assert monday == again != sunday and monday.parent.parent == sunday.parent.parent == question.folder
    assert all(page.stat().st_size for page in pages)


NONE = Restored(0, 0, 0, [], 0, [])


@pytest.mark.parametrize(
    "change",
    [
        {"window": "10:00-10:20"},
        {"skip_idle": True},
        {"config": "production.conf"},
        {"margin": 0.02},
        {"targets": ("18",)},
        {"statements": "postgresql://me@db/app"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_questions_are_told_apart(question: Question, change: dict[str, Any]) -> None:
    captured = None if "statements" in change else question.logs[0]
    assert question_digest(replace(question, **change), captured) != question_digest(
        question, question.logs[0]
    )


def test_files_are_told_apart_by_what_they_hold(question: Question, tmp_path: Path) -> None:
    before = question_digest(question, question.logs[0])
    more = replace(question, statistics=tmp_path / "more.sql")
    assert question_digest(more, question.logs[0]) != before
    question.logs[0].write_text("another Monday")
    assert question_digest(question, question.logs[0]) != before


def test_more_rounds_and_the_checklist_belong_to_the_same_page(question: Question) -> None:
    before = question_digest(question, question.logs[0])
    again = replace(question, more=25.0, checklist_only=True, folder=Path("elsewhere"))
    assert question_digest(again, question.logs[0]) == before


def test_a_password_is_not_part_of_the_question(question: Question) -> None:
    first, second = (
        replace(question, logs=(), statements=f"postgresql://me:{secret}@db/app") for secret in ("a", "b")
    )
    assert question_digest(first, None) == question_digest(second, None)
