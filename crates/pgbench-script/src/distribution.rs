//! Random integers that are not uniform, as the documentation of pgbench defines them.
//!
//! All of them take a range whose size fits a bigint, and parameters that the caller has checked.

use super::rng::Rng;

/// Smallest parameter of [`gaussian`].
pub(super) const GAUSSIAN_MIN: f64 = 2.0;
/// Range of the parameter of [`zipfian`].
pub(super) const ZIPFIAN_MIN: f64 = 1.001;
pub(super) const ZIPFIAN_MAX: f64 = 1000.0;

/// The integer at a fraction in [0, 1) of the range.
fn at(low: i64, high: i64, fraction: f64) -> i64 {
    low.wrapping_add(((high - low + 1) as f64 * fraction) as i64)
}

/// Truncated exponential: the inverse of the distribution function, cut at `parameter`.
pub(super) fn exponential(rng: &mut Rng, low: i64, high: i64, parameter: f64) -> i64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - rng.double();
    at(low, high, -(cut + (1.0 - cut) * uniform).ln() / parameter)
}

/// Normal, truncated at ± `parameter` standard deviations, projected onto the range.
pub(super) fn gaussian(rng: &mut Rng, low: i64, high: i64, parameter: f64) -> i64 {
    let deviate = loop {
        let deviate = rng.normal();
        if deviate >= -parameter && deviate < parameter {
            break deviate;
        }
    };
    at(low, high, (deviate + parameter) / (parameter * 2.0))
}

/// Bounded Zipf by rejection: L. Devroye, "Non-Uniform Random Variate Generation", Springer 1986,
/// p. 550–551, which needs an exponent above 1.
pub(super) fn zipfian(rng: &mut Rng, low: i64, high: i64, exponent: f64) -> i64 {
    let count = high - low + 1;
    if count <= 1 {
        return low;
    }
    let less = exponent - 1.0;
    let scale = 2.0_f64.powf(less);
    loop {
        let inverse = rng.double();
        let accept = rng.double();
        let drawn = inverse.powf(-1.0 / less).floor();
        let ratio = (1.0 + 1.0 / drawn).powf(less);
        if accept * drawn * (ratio - 1.0) / (scale - 1.0) <= ratio / scale && drawn <= count as f64 {
            return low + (drawn as i64 - 1);
        }
    }
}
