"""The distributions that verdicts ask, in a few lines each.

scipy has them all; it is 140 MB and takes a quarter of a second to load, for four functions. A test holds
these against it.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()

NORMAL_95 = 1.959964
"""Standard errors of a 95 % interval of a normal value."""

_TINY = 1e-300
_PRECISE = 4e-16
_MOST_TERMS = 1_000_000
_MOST_STEPS = 2000

_EULER = 0.577215664901532860606512090082
"""The Euler–Mascheroni constant."""

_SAME_GAMMA = 1e4
"""Above it ln Γ(a + ½) − ln Γ(a) comes from its series: two large logarithms have no precise difference."""


def student_quantile(freedom: float, share: float) -> float:
    """Returns the value below which this share, 0 to 1, of Student's distribution lies; infinite freedom: of
    the normal one.

    Newton's method on the logarithm of the tail, which is nearly a line there.
    """
    if math.isinf(freedom):
        return _NORMAL.inv_cdf(share)
    if share == 0.5:
        return 0.0
    if share < 0.5:
        return -_upper_quantile(freedom, share)
    return _upper_quantile(freedom, 1.0 - share)


def _upper_quantile(freedom: float, tail: float) -> float:
    """Returns the value above which this share of Student's distribution, below one half, lies."""
    if tail <= 0.0:
        return math.inf
    normal = -_NORMAL.inv_cdf(tail)
    value = normal + (normal**3 + normal) / (4 * freedom)  # the first terms of Cornish and Fisher (1937)
    low, high = 0.0, math.inf
    for _ in range(_MOST_STEPS):
        above, density = _student_above(freedom, value), _student_density(freedom, value)
        low, high = (value, high) if above > tail else (low, value)
        step = math.log(above / tail) * above / density if above > 0.0 and density > 0.0 else math.inf
        following = value + step
        if not low < following < high:
            following = (low + high) / 2 if math.isfinite(high) else 2.0 * low
        if math.isinf(following) or abs(following - value) <= 4e-16 * abs(following):
            return following
        value = following
    return value


def student_below(freedom: float, value: float) -> float:
    """Returns the share of Student's distribution below a value, 0 to 1."""
    if math.isnan(value) or math.isnan(freedom):
        return math.nan
    if math.isinf(freedom):
        return _NORMAL.cdf(value)
    return _student_above(freedom, -value) if value < 0 else 1.0 - _student_above(freedom, value)


def _student_above(freedom: float, value: float) -> float:
    """Returns the share of Student's distribution above a value of at least 0 (Abramowitz and Stegun 1964,
    26.7.1): ½ I_x(ν/2, ½) with x = ν ÷ (ν + t²)."""
    if math.isinf(value):
        return 0.0
    square = value * value
    return 0.5 * _beta_share(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


def _student_density(freedom: float, value: float) -> float:
    power = -(freedom + 1) / 2 * math.log1p(value * value / freedom)
    return math.exp(_half_step(freedom / 2) - 0.5 * math.log(freedom * math.pi) + power)


def _half_step(a: float) -> float:
    """Returns ln Γ(a + ½) − ln Γ(a); for large a by its series (Tricomi and Erdélyi 1951)."""
    if a > _SAME_GAMMA:
        return 0.5 * math.log(a) - 1 / (8 * a) + 1 / (192 * a**3)
    return math.lgamma(a + 0.5) - math.lgamma(a)


def _log_beta(a: float, b: float) -> float:
    if b == 0.5:
        return 0.5 * math.log(math.pi) - _half_step(a)
    if a == 0.5:
        return 0.5 * math.log(math.pi) - _half_step(b)
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """Returns the regularised incomplete beta function I_x(a, b); rest: 1 − x, which may be too small to see
    in x."""
    if x <= 0.0:
        return 0.0
    if rest <= 0.0:
        return 1.0
    log_front = a * (math.log(x) if x < 0.5 else math.log1p(-rest))
    log_front += b * (math.log(rest) if rest < 0.5 else math.log1p(-x)) - _log_beta(a, b)
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, rest) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction of I_x(a, b) (Abramowitz and Stegun 1964, 26.5.8) by Lentz's method
    (1976)."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _not_zero(1.0 + term * d)
            c = _not_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < _PRECISE:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def coin_below(most: int, throws: int) -> float:
    """Returns the probability that a fair coin shows its head at most `most` times: I_½(throws − most, most +
    1)."""
    if most < 0:
        return 0.0
    return 1.0 if most >= throws else _beta_share(throws - most, most + 1.0, 0.5, 0.5)


def exponential_integral(begin: float) -> float:
    """Returns the integral of exp(−x) ÷ x from `begin`, above 0, to infinity: E₁ (Abramowitz and Stegun 1964,
    5.1.11 and 5.1.22)."""
    if begin <= 1.0:
        total, power = -_EULER - math.log(begin), 1.0
        for k in range(1, 60):
            power *= -begin / k
            total -= power / k
        return total
    b = begin + 1.0
    c, d = 1.0 / _TINY, 1.0 / b
    value = d
    for k in range(1, _MOST_TERMS):
        b += 2.0
        d = 1.0 / (b - k * k * d)
        c = b - k * k / c
        value *= c * d
        if abs(c * d - 1.0) < _PRECISE:
            break
    return value * math.exp(-begin)


__all__ = ["NORMAL_95", "coin_below", "exponential_integral", "student_below", "student_quantile"]
