"""How steps are called that are measured with several numbers of clients."""

from __future__ import annotations

import re

CLIENTS = re.compile(r"-c(\d+)$")
"""The end of the name of such a step."""


def point_name(steps: str, clients: int) -> str:
    """Returns the name of the step of this common name with a number of clients."""
    return f"{steps}-c{clients}"


__all__ = ["CLIENTS", "point_name"]
