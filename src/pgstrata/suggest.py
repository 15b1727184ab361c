"""What somebody who mistyped a name probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that was probably meant, None if no word is near."""
    candidates = {k.lower(): k for k in known}
    low = word.lower()
    if low in candidates:
        return candidates[low]
    matches = difflib.get_close_matches(low, candidates, n=1, cutoff=0.6)
    if matches:
        return candidates[matches[0]]
    begins = [k for k in candidates if len(low) >= 3 and (k.startswith(low) or low.startswith(k))]
    return candidates[begins[0]] if len(begins) == 1 else None


def several(word: str, known: Iterable[str], most: int) -> list[str]:
    """Returns the known words that are near, the nearest first; if none is, those that hold the word."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=most, cutoff=0.5)
    return near or [name for name in known if word.lower() in name.lower()][:most]


def meant(word: str, known: Iterable[str], what: str) -> str:
    """Returns the second half of "X is not known": the word that was probably meant, or all there are."""
    known = list(known)
    if guess := nearest(word, known):
        return f"did you mean `{guess}`?"
    return f"{what}: {', '.join(known)}" if known else ""
