"""benchmarks/results/findings.md is what its bundles say, they verify, and each question has an answer."""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from pgstrata.count.verdicts import CountVerdict, CountWord
from pgstrata.judge.functions import FunctionChange
from pgstrata.judge.published import Rounded
from support.benchmarks import BENCHMARKS, benchmark

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def findings() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    yield benchmark("findings.py")
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.long
def test_the_page_is_made_of_bundles_that_verify(findings: ModuleType) -> None:
    files = sorted(findings.BUNDLES.glob("*.pgstrata"))
    text, problems = findings.page(files)
    assert files and not problems
    assert (ROOT / "benchmarks/results/findings.md").read_text(encoding="utf-8") == text
    questions = [line for line in text.splitlines() if "| [" in line]
    assert len(questions) >= 20 and questions == sorted(questions)
    assert all("instructions" in line and line.count(" | ") == 4 for line in questions)


def move(findings: ModuleType, ratio: float, word: str = "more", rate: float | None = None) -> Any:
    """Returns what changes from 13 to 14, as counted and as published."""
    v = CountVerdict(
        "sysbench", "scan", "query", True, 100.0, 100.0 * ratio, cast("CountWord", word), ratio,
        ratio * 0.999, ratio * 1.001, 0.002, 0.95, (2, 2), 0.0, 0.0, "",
    )  # fmt: skip
    changes = [FunctionChange("pg_mblen_with_len", 0.0, 100 * (ratio - 1), ratio - 1)]
    published = None if rate is None else Rounded(rate, rate - 0.005, rate + 0.005)
    return findings.answers.Move("13.23", "14.24", v, changes, published)


@pytest.mark.parametrize(
    ("ratio", "word", "rate", "says"),
    [
        (1.25, "more", 0.80, "is what they say"),
        (1.25, "more", 0.60, "is more than they say: × 0.800"),
        (0.5, "fewer", 1.2, "is less than they say: × 2.00"),
        (1.25, "more", 1.10, "goes against them: alone they make it × 0.800"),
        (1.0005, "same", 1.58, "is not in them: they are the same within 1 %"),
        (1.2, "unclear", 1.58, "is not known: they are unclear"),
    ],
)
def test_a_rate_is_held_against_instructions(
    findings: ModuleType, ratio: float, word: str, rate: float, says: str
) -> None:
    change = move(findings, ratio, word, rate)
    assert findings.answers.agreement(change, change.rate) == says


def test_an_answer_names_version_interval_function_and_rate(findings: ModuleType) -> None:
    steps = [move(findings, 1.25, "more", 0.8)]
    assert findings.answers.sentence_of(steps, "sb-8core") == (
        "instructions × 1.250 (1.249 – 1.251) in 14.24, more by 25 % in `pg_mblen_with_len` (new); "
        "the rate × 0.800 in 14 is what they say."
    )
    steps = [move(findings, 1.0005, "same", 1.0)]
    assert findings.answers.sentence_of(steps, "sb-8core") == (
        "no version changes its instructions by 1 %; no published change of the rate reaches 2 %."
    )


@pytest.mark.long
def test_a_changed_verdict_is_told(findings: ModuleType, tmp_path: Path) -> None:
    bundle = next(findings.BUNDLES.glob("*.pgstrata"))
    content = BytesIO()
    with tarfile.open(bundle) as old, tarfile.open(fileobj=content, mode="w:xz", preset=0) as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            assert file is not None
            data = file.read()
            if member.name == "bundle.json":
                data = data.replace(b'"fewer"', b'"more"')
            member.size = len(data)
            new.addfile(member, BytesIO(data))
    (changed := tmp_path / "changed.pgstrata").write_bytes(content.getvalue())
    _, problems = findings.page([changed])
    assert any(text.startswith("changed: ") for text in problems)


def test_a_question_without_its_bundle_is_told(
    findings: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "questions.csv").write_text(
        "bundle,step,study,published_step,question\ngone,scan,,,Is it slower?\n"
    )
    monkeypatch.setattr(findings, "QUESTIONS", file)
    _, problems = findings.page(sorted(findings.BUNDLES.glob("scan-*.pgstrata")))
    assert problems == ["gone: not here, asked for scan"]


def test_without_bundles_it_fails(
    findings: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(findings, "BUNDLES", tmp_path)
    monkeypatch.setattr("sys.argv", ["findings.py"])
    assert findings.main() == 1
    assert "no bundle" in capsys.readouterr().err
