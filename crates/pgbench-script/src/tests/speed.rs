//! How fast expressions are: `cargo test --release speed -- --ignored --nocapture`.

use std::hint::black_box;

use super::super::{Command, Names, Rng, Value, parse_script};
use super::vars_with;

/// Runs `\set`s of a script over and over and prints millions per second.
#[test]
#[ignore = "prints a speed, checks nothing"]
fn sets_per_second() {
    for text in [
        "\\set x random(1, 100)",
        "\\set x :y + 1",
        "\\set x random(1, 100000 * :y)",
        "\\set x (1021 * random(1, 100000 * :y)) % (100000 * :y) + 1",
        "\\set x random_zipfian(1, 1000000, 1.1)",
        "\\set x sysbench_zipf(1, 1000000, 0.8)",
        "\\set x random_gaussian(1, 1000, 2.5)",
        "\\set x permute(:y, 1000000)",
        "\\set x hash(:y)",
        "\\set x case when :y > 5 then 1 else 2 end",
    ] {
        let mut names = Names::new();
        let (y, seed) = (names.slot("y"), names.slot("default_seed"));
        let script = parse_script(text, "speed.sql", &mut names, false).unwrap();
        let Command::Set { slot, expr, .. } = &script.commands[0] else { panic!() };
        let mut vars = vars_with(&names, [(y, Value::Int(10)), (seed, Value::Int(1))]);
        let mut rng = Rng::new(1);
        const SETS: u32 = 3_000_000;
        let start = cpu_seconds();
        for _ in 0..SETS {
            let value = black_box(expr).eval(&mut vars, &mut rng).unwrap();
            vars.set(*slot, value);
        }
        black_box(&vars);
        let seconds = cpu_seconds() - start;
        println!("{:8.1} million/s  {text}", f64::from(SETS) / seconds / 1e6);
    }
}

/// CPU time of this thread, which other programs on the machine do not add to.
fn cpu_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
