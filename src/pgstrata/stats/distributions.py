"""The distributions that verdicts ask, by scipy.

Loading it takes a quarter of a second, longer than anything else that a run loads: so it is loaded where
the first value is asked for.
"""

from __future__ import annotations

import math
from statistics import NormalDist


def student_quantile(freedom: float, share: float) -> float:
    """Below which this share, 0 to 1, of Student's distribution lies; infinite freedom: of the normal one."""
    if math.isinf(freedom):
        return NormalDist().inv_cdf(share)
    from scipy import special

    return float(special.stdtrit(freedom, share))


def student_below(freedom: float, value: float) -> float:
    """The share of Student's distribution below a value, 0 to 1."""
    from scipy import special

    return float(special.stdtr(freedom, value))


def coin_below(most: int, throws: int) -> float:
    """How likely a fair coin shows its head no more than `most` times, 0 to 1."""
    from scipy import special

    return float(special.bdtr(most, throws, 0.5))


def exponential_integral(begin: float) -> float:
    """The integral of exp(−x) ÷ x from `begin`, above 0, on (E₁)."""
    from scipy import special

    return float(special.exp1(begin))


__all__ = ["coin_below", "exponential_integral", "student_below", "student_quantile"]
