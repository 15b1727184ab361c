"""How steps are called that are measured with several numbers of clients."""

from __future__ import annotations

import re

CLIENTS = re.compile(r"-c(\d+)$")
"""The end of the name of such a step."""

__all__ = ["CLIENTS"]
