"""`pgstrata bench`: what is wanted, doing it, what came out, and how it is printed."""

from pgstrata.measure.bench.options import BenchOptions
from pgstrata.measure.bench.result import BenchResult
from pgstrata.measure.bench.run import run

__all__ = ["BenchOptions", "BenchResult", "run"]
