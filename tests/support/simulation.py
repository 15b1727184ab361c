"""The simulated machines of benchmarks/sensitivity/simulate.py, for the tests of verdicts."""

from __future__ import annotations

from support.benchmarks import benchmark

simulate = benchmark("sensitivity/simulate.py")
