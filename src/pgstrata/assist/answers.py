"""What tools answer: typed, and made of the JSON that pgstrata's commands print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from pgstrata.report.disturbance import ADVICE

MOST_CAMPAIGNS = 100
"""Of one answer, the newest first."""

Word = Literal["slower", "faster", "same", "unclear", "more", "fewer"]


class Verdict(BaseModel):
    """The verdict on one step. Only `slower`, `faster`, `same`, `more` and `fewer` are proven."""

    workload: str
    step: str
    word: Word
    change_percent: float | None = Field(description="Of the other against the base, estimated.")
    low_percent: float | None = Field(description="Where the interval begins; null: no bound is known.")
    high_percent: float | None = Field(description="Where it ends; null: no bound is known.")
    confidence: float
    base: float | None = Field(description="Measured of the base, in `unit`.")
    other: float | None = Field(description="Measured of the other, in `unit`.")
    unit: str
    margin_percent: float = Field(description="Smaller differences count as the same.")
    sentence: str = Field(description="The verdict as a person would say it.")
    reason: str
    next_step: str = Field(description="What would settle an unclear one; empty for others.")


class Comparison(BaseModel):
    """The verdicts on one variant against another."""

    base: str
    other: str
    steps: list[Verdict]
    differences: list[str] = Field(description="What else differs between the two, say their hosts.")


class Measured(BaseModel):
    """What came of a measurement. failed: variant, workload and reason of runs that ended badly."""

    campaign: str
    comparisons: list[Comparison]
    failed: list[str]
    page: str | None = Field(description="The HTML report, for a person.")


class Campaign(BaseModel):
    """Runs that were measured for one question."""

    campaign: str
    variants: list[str]
    workloads: list[str]
    runs: int
    failed: int
    last_started: str


def comparisons_of(records: Iterable[Mapping[str, Any]]) -> list[Comparison]:
    """Returns comparisons from those that `compare --format json` and `count --format json` print."""
    return [
        Comparison(
            base=record["base"],
            other=record["other"],
            steps=[_verdict(step, record) for step in record["steps"]],
            differences=[*record.get("differences", ()), *record.get("notes", ())],
        )
        for record in records
    ]


def measured_of(record: Mapping[str, Any]) -> Measured:
    """Returns what `run --format json` prints."""
    return Measured(
        campaign=record["campaign"],
        comparisons=comparisons_of(record["comparisons"]),
        failed=[f"{run['variant']}, {run['workload']}: {run['error']}" for run in record["failed"]],
        page=record["report"],
    )


def campaigns_of(runs: Iterable[Mapping[str, Any]]) -> list[Campaign]:
    """Returns the campaigns of `runs --format json`, the last started first."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        by_name.setdefault(run["campaign"], []).append(run)
    campaigns = [
        Campaign(
            campaign=name,
            variants=list(dict.fromkeys(run["variant"] for run in campaign_runs)),
            workloads=list(dict.fromkeys(run["workload"] for run in campaign_runs)),
            runs=len(campaign_runs),
            failed=sum(run["status"] == "failed" for run in campaign_runs),
            last_started=max(run["started"] for run in campaign_runs),
        )
        for name, campaign_runs in by_name.items()
    ]
    return sorted(campaigns, key=lambda campaign: campaign.last_started, reverse=True)[:MOST_CAMPAIGNS]


def _verdict(step: Mapping[str, Any], comparison: Mapping[str, Any]) -> Verdict:
    counted = comparison.get("counted")
    ratio, low, high = (_percent(step[key]) for key in ("ratio", "low", "high"))
    known = low is not None and high is not None and low > -100
    span = f" ({low:+.1f} … {high:+.1f} %)" if known else ""
    reason = step["reason"]
    base, other = comparison["base"], comparison["other"]
    if step["word"] == "unclear":
        sentence = f"It is unclear whether {other} differs from {base} at {step['step']}{span}: {reason}."
    elif step["word"] == "same":
        sentence = f"{other} is the same as {base} at {step['step']}{span}."
    else:
        noun = f"needs {step['word']} instructions" if counted else f"is {step['word']}"
        sentence = f"{other} {noun} than {base} at {step['step']}: {ratio or 0:+.1f} %{span}."
    return Verdict(
        workload=step["workload"],
        step=step["step"] if step.get("headline", True) else f"{step['step']}, {step['role']}",
        word=step["word"],
        change_percent=ratio,
        low_percent=low if known else None,
        high_percent=high if known else None,
        confidence=step["confidence"],
        base=step["base"] if counted else step["base_rate"],
        other=step["other"] if counted else step["other_rate"],
        unit=counted or step["unit"],
        margin_percent=100 * step["margin"],
        sentence=sentence,
        reason=reason,
        next_step=_next(step),
    )


def _next(step: Mapping[str, Any]) -> str:
    if step["word"] != "unclear":
        return ""
    if step.get("disturbance"):
        return ADVICE
    if step.get("single_run"):
        return "Let the servers take turns, or repeat the runs: one run each proves nothing."
    return "Measure longer, or accept a larger margin."


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(100 * (ratio - 1), 3)


__all__ = ["Campaign", "Comparison", "Measured", "Verdict", "campaigns_of", "comparisons_of", "measured_of"]
