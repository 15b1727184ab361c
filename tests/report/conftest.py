"""Reports the tests look at, made once per process from run folders of the real store."""

from __future__ import annotations

import pytest

from pgstrata.judge.marks import THRESHOLDS
from pgstrata.report.write import write_report
from support.page import PageReader, Written
from support.runs import make_campaign

BASE, FAST, SLOW, DEAD = "pg12.22.x10a", "pg15.10.x10a", "pg17.11.x10a", "pg18.1.x10a"


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Two repeats: one variant 30 % faster, one 20 % slower that misses an SLA, one whose server dies.

    Coloured by the rules of the field: two repeats prove nothing.
    """
    root = tmp_path_factory.mktemp("comparison")
    make_campaign(
        root / "results",
        variants=(BASE, FAST, SLOW, DEAD),
        speeds={FAST: 1.3, SLOW: 0.8, DEAD: 1.0},
        repeats=2,
        seconds=6,
        missed=[(SLOW, "qp1000")],
        failed=[DEAD],
    )
    report = write_report(root / "results", out=root / "report", thresholds=THRESHOLDS)
    return Written(root / "results", report, PageReader(report.html))


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One variant, one run."""
    root = tmp_path_factory.mktemp("single")
    make_campaign(root / "results", variants=(BASE,), seconds=4)
    report = write_report(root / "results", out=root / "report")
    return Written(root / "results", report, PageReader(report.html))
