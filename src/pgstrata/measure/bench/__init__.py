"""`pgstrata bench`: what is wanted, doing it, what came out, and how it is printed."""

from pgstrata.measure.bench.measured import Measured
from pgstrata.measure.bench.run import run
from pgstrata.measure.bench.wanted import Bench, Log

__all__ = ["Bench", "Log", "Measured", "run"]
