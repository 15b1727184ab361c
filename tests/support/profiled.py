"""The simulated servers of benchmarks/profile_words.py, for the tests of paired profiles."""

from __future__ import annotations

from support.benchmarks import benchmark

simulate = benchmark("profile_words.py")
