"""Plotly figures as plain data, and the colours of variants.

The figures are written by hand as JSON instead of through plotly's Python classes: importing and
validating those costs seconds on a report with hundreds of charts. Colours of text, grid and
background are left out: the page's script sets them for its light or dark scheme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

# Okabe & Ito's colours for colour-blind readers, in an order in which neighbours differ most, and a
# few between them; all readable on white and on near-black. Beyond twelve, dashes tell them apart.
PALETTE = (
    "#3b82c4", "#e08a1e", "#2f9e7e", "#c65f9e", "#8a6fd1", "#c7563b",
    "#4fb3d9", "#9a8b2c", "#6d8f3a", "#a8718a", "#5a7d9a", "#b0793f",
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot")

POINTS_PER_CHART = 24_000
MOST_POINTS = 2_000
FEWEST_POINTS = 240
SHOWN_AT_FIRST = 8


def color(index: int) -> str:
    """The colour of the variant with this index, the same everywhere in a report."""
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> str:
    """The dash of the variant's lines: solid for the first twelve."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


def label(text: str) -> str:
    """Text for Plotly, which reads a small HTML and its entities in every text it draws."""
    return html.escape(text, quote=False)


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Numbers with four significant digits: a chart shows no more, and the page stays light."""
    return [
        None if v is None or not math.isfinite(v) else (int(v) if v == int(v) else float(f"{v:.4g}"))
        for v in values
    ]


def thinned(xs: Sequence[float], ys: Sequence[float], most: int) -> tuple[list[float], list[float]]:
    """At most about `most` points of a line, keeping the smallest and the largest of each stretch.

    A mean would hide exactly what per-second charts are for: the one second that stalled. NaN
    marks a gap and is kept where its stretch holds nothing else.
    """
    if len(xs) <= most:
        return list(xs), list(ys)
    values = np.asarray(ys, dtype=float)
    keep: set[int] = {0, len(values) - 1}
    edges = np.linspace(0, len(values), max(1, most // 2) + 1).astype(int)
    for start, end in pairwise(edges):
        part = values[start:end]
        if not len(part):
            continue
        known = np.flatnonzero(~np.isnan(part))
        if not len(known):
            keep.add(int(start))
            continue
        keep.add(int(start + known[np.argmin(part[known])]))
        keep.add(int(start + known[np.argmax(part[known])]))
    order = sorted(keep)
    return [xs[i] for i in order], [ys[i] for i in order]


def budget(lines: int) -> int:
    """Points each of so many lines may have in one chart."""
    return max(FEWEST_POINTS, min(MOST_POINTS, POINTS_PER_CHART // max(1, lines)))


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis whose title says its unit (lines divided by newlines); ticks with thousands grouped."""
    made: dict[str, Any] = {"automargin": True, "zeroline": False, "separatethousands": True}
    if title:
        made["title"] = {"text": "<br>".join(map(label, title.split("\n"))), "standoff": 8}
    return {**made, **more}


def trace(variant: str, index: int, *, shown: bool = True, **more: Any) -> dict[str, Any]:
    """A trace that belongs to a variant: the page's switches find it by `meta`."""
    made: dict[str, Any] = {"name": label(variant), "meta": variant, "legendgroup": variant}
    if not shown:
        made["visible"] = "legendonly"
    return {**made, **more}
