"""Plotly figures as plain data, and the colours of variants.

The figures are written by hand as JSON instead of through plotly's Python classes: importing and
validating those costs seconds on a report with hundreds of charts. Colours of text, grid and
background are left out: the page's script sets them for its light or dark scheme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

# Okabe & Ito's colours for colour-blind readers, in an order in which neighbours differ most, and a
# few between them; all readable on white and on near-black. Beyond twelve, dashes tell them apart.
PALETTE = (
    "#3b82c4", "#e08a1e", "#2f9e7e", "#c65f9e", "#8a6fd1", "#c7563b",
    "#4fb3d9", "#9a8b2c", "#6d8f3a", "#a8718a", "#5a7d9a", "#b0793f",
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot")

Floats = npt.NDArray[np.float64]

POINTS_PER_CHART = 24_000
MOST_POINTS = 2_000
FEWEST_POINTS = 240
SHOWN_AT_FIRST = 8


def color(index: int) -> str:
    """Returns the colour of the variant with this index, the same everywhere in a report."""
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> str:
    """Returns the dash of the variant's lines: solid for the first twelve."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


def label(text: str) -> str:
    """Returns text for Plotly, which reads a small HTML and its entities in every text it draws."""
    return html.escape(text, quote=False)


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Returns numbers with four significant digits: a chart shows no more, and the page stays light."""
    return [
        None if v is None or not math.isfinite(v) else (int(v) if v == int(v) else float(f"{v:.4g}"))
        for v in values
    ]


def thinned(xs: Floats, ys: Floats, most: int) -> tuple[Floats, Floats]:
    """Returns at most about `most` points of a line, keeping the smallest and the largest of each stretch.

    A mean would hide exactly what per-second charts are for: the one second that stalled. NaN marks a
    gap; a stretch that holds nothing else keeps one. First and last point stay.
    """
    if len(xs) <= most:
        return xs, ys
    stretch = -(-len(ys) // max(1, most // 2))
    padded = np.full(-(-len(ys) // stretch) * stretch, np.nan)
    padded[: len(ys)] = ys
    table = padded.reshape(-1, stretch)
    starts = np.arange(len(table)) * stretch
    unknown = np.isnan(table)
    lowest = np.where(unknown, np.inf, table).argmin(axis=1) + starts
    highest = np.where(unknown, -np.inf, table).argmax(axis=1) + starts
    keep = np.unique(np.concatenate((lowest, highest, [0, len(ys) - 1])))
    return xs[keep], ys[keep]


def budget(lines: int) -> int:
    """Returns how many points each line may have in a chart of this many lines."""
    return max(FEWEST_POINTS, min(MOST_POINTS, POINTS_PER_CHART // max(1, lines)))


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """Returns an axis whose title says its unit (lines divided by newlines); ticks with thousands grouped."""
    properties: dict[str, Any] = {"automargin": True, "zeroline": False, "separatethousands": True}
    if title:
        properties["title"] = {"text": "<br>".join(map(label, title.split("\n"))), "standoff": 8}
    return {**properties, **more}


def legend_above(y: float) -> dict[str, Any]:
    """Returns a legend in one line above the figure, which ends at 1; y: where it begins."""
    return {"orientation": "h", "x": 0, "y": y, "yanchor": "bottom", "xanchor": "left"}


def trace(variant: str, index: int, *, shown: bool = True, **more: Any) -> dict[str, Any]:
    """Returns a trace that belongs to a variant: the page's switches find it by `meta`."""
    properties: dict[str, Any] = {"name": label(variant), "meta": variant, "legendgroup": variant}
    if not shown:
        properties["visible"] = "legendonly"
    return {**properties, **more}
