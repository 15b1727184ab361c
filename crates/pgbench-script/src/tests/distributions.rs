//! Random functions held against their definitions, at fixed seeds.
//!
//! Pearson's χ² statistic of n draws over k cells has mean k − 1 and variance about 2 (k − 1); a
//! generator that is right stays within five standard deviations but once in millions of seeds.

use super::super::{Expr, Names, Rng, Value, Vars};

/// How many standard deviations χ² of `counts` lies above its mean, given probabilities.
fn excess(counts: &[u64], probabilities: &[f64]) -> f64 {
    let draws: u64 = counts.iter().sum();
    // Cells in which fewer than ten are expected are put together.
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        seen += count as f64;
        expected += probability * draws as f64;
        if expected >= 10.0 {
            statistic += (seen - expected).powi(2) / expected;
            cells += 1.0;
            (seen, expected) = (0.0, 0.0);
        }
    }
    let freedom: f64 = cells - 1.0;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

/// Counts of the values 1 … `size` in 60 000 draws of an expression.
fn counts(text: &str, size: usize, seed: u64) -> Vec<u64> {
    let expr = Expr::parse(text, &mut Names::new()).unwrap();
    let (mut vars, mut rng) = (Vars::default(), Rng::new(seed));
    let mut counts = vec![0; size];
    for _ in 0..60_000 {
        let value = expr.eval_int(&mut vars, &mut rng).unwrap();
        counts[usize::try_from(value - 1).unwrap()] += 1;
    }
    counts
}

#[track_caller]
fn check(text: &str, probabilities: &[f64]) {
    let total: f64 = probabilities.iter().sum();
    assert!((total - 1.0).abs() < 1e-6, "{text}: probabilities add up to {total}");
    for seed in 1..=3 {
        let excess = excess(&counts(text, probabilities.len(), seed), probabilities);
        assert!(excess < 5.0, "{text} seed {seed}: {excess} standard deviations");
    }
}

fn zipf(size: usize, exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=size).map(|k| (k as f64).powf(-exponent)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Distribution function of the standard normal, by Simpson's rule from −10.
fn phi(x: f64) -> f64 {
    const STEPS: usize = 4000;
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let width = (x + 10.0) / STEPS as f64;
    let inner: f64 =
        (1..STEPS).map(|i| density(-10.0 + i as f64 * width) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    (density(-10.0) + inner + density(x)) * width / 3.0
}

#[test]
fn uniform() {
    check("random(1, 100)", &[0.01; 100]);
    check("random(1, 3)", &[1.0 / 3.0; 3]);
    check("random(1, 1000)", &[0.001; 1000]);
}

#[test]
fn exponential() {
    for (size, parameter) in [(10, 3.0_f64), (100, 10.0), (50, 0.1)] {
        let f = |i: usize| (-parameter * (i as f64 - 1.0) / size as f64).exp() / (1.0 - (-parameter).exp());
        let probabilities: Vec<f64> = (1..=size).map(|i| f(i) - f(i + 1)).collect();
        check(&format!("random_exponential(1, {size}, {parameter})"), &probabilities);
    }
}

#[test]
fn gaussian() {
    for (size, parameter) in [(10, 2.5), (100, 4.0), (51, 2.0)] {
        let middle = (1.0 + size as f64) / 2.0;
        let f = |x: f64| phi(2.0 * parameter * (x - middle) / size as f64) / (2.0 * phi(parameter) - 1.0);
        let probabilities: Vec<f64> = (1..=size).map(|i| f(i as f64 + 0.5) - f(i as f64 - 0.5)).collect();
        check(&format!("random_gaussian(1, {size}, {parameter:.1})"), &probabilities);
    }
}

#[test]
fn zipfian() {
    for (size, exponent) in [(10, 1.5), (1000, 1.07), (100, 2.5), (20, 1.2)] {
        check(&format!("random_zipfian(1, {size}, {exponent})"), &zipf(size, exponent));
    }
}

#[test]
fn sysbench_zipf() {
    for (size, exponent) in [(10, 0.8), (1000, 0.8), (100, 1.0), (1000, 0.1), (100, 3.0), (1, 0.8), (2, 1e-9)]
    {
        let text = format!("sysbench_zipf(1, {size}, {exponent:?})");
        if size == 1 {
            assert_eq!(counts(&text, 1, 1), [60_000]);
        } else {
            check(&text, &zipf(size, exponent));
        }
    }
}

#[test]
fn sysbench_zipf_of_variables_follows_them() {
    // The constants kept with the expression must not be used for another range or exponent.
    let mut names = Names::new();
    let expr = Expr::parse("sysbench_zipf(:lo, :hi, :q)", &mut names).unwrap();
    let slots = ["lo", "hi", "q"].map(|name| names.get(name).unwrap());
    let (mut vars, mut rng) = (Vars::new(&names), Rng::new(1));
    for (low, high, exponent) in [(1, 10, 1), (101, 200, 2), (-5, 4, 3), (1, 10, 2)] {
        for (slot, value) in slots.into_iter().zip([low, high, exponent]) {
            vars.set(slot, Value::Int(value));
        }
        let size = (high - low + 1) as usize;
        let mut counts = vec![0u64; size];
        for _ in 0..100_000 {
            counts[(expr.eval_int(&mut vars, &mut rng).unwrap() - low) as usize] += 1;
        }
        let excess = excess(&counts, &zipf(size, exponent as f64));
        assert!(excess < 5.0, "{low} {high} {exponent}: {excess}");
    }
}

#[test]
fn the_test_itself_tells_distributions_apart() {
    let counts = counts("sysbench_zipf(1, 100, 0.8)", 100, 1);
    assert!(excess(&counts, &zipf(100, 0.8)) < 5.0);
    assert!(excess(&counts, &zipf(100, 0.85)) > 5.0);
    assert!(excess(&counts, &[0.01; 100]) > 5.0);
}

#[test]
fn a_clone_of_the_generator_repeats_what_the_original_draws() {
    let mut rng = Rng::new(7);
    rng.next_u64();
    let mut saved = rng.clone();
    let drawn: Vec<i64> = (0..100).map(|_| rng.uniform(1, 1_000_000)).collect();
    let again: Vec<i64> = (0..100).map(|_| saved.uniform(1, 1_000_000)).collect();
    assert_eq!(drawn, again);
    assert_ne!(drawn[..50], drawn[50..]);
}

#[test]
fn the_whole_range_of_integers_can_be_drawn() {
    let mut rng = Rng::new(3);
    let values: Vec<i64> = (0..1000).map(|_| rng.uniform(i64::MIN, i64::MAX)).collect();
    assert!(
        values.iter().any(|&value| value < i64::MIN / 2) && values.iter().any(|&value| value > i64::MAX / 2)
    );
    assert_eq!(rng.uniform(5, 5), 5);
}
