"""The simulated servers of benchmarks/profile_words.py, for the tests of paired profiles."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[2] / "benchmarks" / "profile_words.py"
_SPEC = importlib.util.spec_from_file_location("profile_words", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
simulate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(simulate)
