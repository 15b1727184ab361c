"""Programs of `benchmarks/`, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark(path: str) -> ModuleType:
    """Returns the program below `benchmarks/`, loaded anew."""
    file = BENCHMARKS / path
    name = "_".join(file.relative_to(BENCHMARKS).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
