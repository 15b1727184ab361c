"""The simulated machines of benchmarks/sensitivity/simulate.py, for the tests of verdicts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_FILE = Path(__file__).parents[2] / "benchmarks" / "sensitivity" / "simulate.py"
_SPEC = importlib.util.spec_from_file_location("sensitivity_simulate", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
simulate = importlib.util.module_from_spec(_SPEC)
sys.modules["sensitivity_simulate"] = simulate  # dataclasses look their module up
_SPEC.loader.exec_module(simulate)
