//! Zipf's distribution as sysbench draws it: any positive exponent, the smallest value hottest.

use super::rng::Rng;

/// The constants of a bounded Zipf distribution: P(k) ∝ k^−exponent for k = 1 … count.
///
/// Rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-Inversion to Generate Variates from
/// Monotone Discrete Distributions", ACM TOMACS 6 (1996), with the antiderivative of the hat
/// function shifted by a constant, (x^(1−q) − 1) / (1 − q), which has the limit ln x at q = 1: so
/// every positive exponent is allowed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Zipf {
    pub count: u64,
    pub exponent: f64,
    /// Area under the hat up to 1.5, less the mass of 1: the lower end of what is inverted.
    first: f64,
    /// Area under the hat up to count + ½: the upper end.
    last: f64,
    /// How far below its integer an inverted value may lie and be accepted without a closer look.
    squeeze: f64,
}

impl Zipf {
    pub fn new(count: u64, exponent: f64) -> Zipf {
        Zipf {
            count,
            exponent,
            first: area(1.5, exponent) - 1.0,
            last: area(count as f64 + 0.5, exponent),
            squeeze: 2.0 - area_inverse(area(2.5, exponent) - hat(2.0, exponent), exponent),
        }
    }

    /// A value from 1 to `count`.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let uniform = self.last + rng.double() * (self.first - self.last);
            let inverted = area_inverse(uniform, self.exponent);
            // Rounding errors can lead out of the range at both ends.
            let value = ((inverted + 0.5) as u64).clamp(1, self.count);
            let whole = value as f64;
            if whole - inverted <= self.squeeze
                || uniform >= area(whole + 0.5, self.exponent) - hat(whole, self.exponent)
            {
                return value;
            }
        }
    }
}

/// The hat function x^−q.
fn hat(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

/// (x^(1−q) − 1) / (1 − q).
fn area(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    expm1_over((1.0 - exponent) * log) * log
}

/// The x whose [`area`] this is.
fn area_inverse(area: f64, exponent: f64) -> f64 {
    // Below −1 the logarithm has no value; only rounding errors lead there.
    let bounded = (area * (1.0 - exponent)).max(-1.0);
    (log1p_over(bounded) * area).exp()
}

/// (e^x − 1) / x, by its series near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0)) }
}

/// ln(1 + x) / x, by its series near 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - x / 4.0)) }
}
