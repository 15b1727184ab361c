//! Expressions without chance, and scripts cut into statements.

use super::super::{Expr, Names, Value, Vars, split_sql};
use super::printed;

/// The typical value with `scale` 10 and nothing else set, or why there is none.
fn typical(text: &str, place: f64) -> String {
    let mut names = Names::new();
    let scale = names.slot("scale");
    let expr = Expr::parse(text, &mut names).unwrap();
    let mut vars = Vars::new(&names);
    vars.set(scale, Value::Int(10));
    expr.typical(&vars, place).map_or_else(|error| error.message, |value| printed(&value))
}

#[test]
fn uniform_ranges_give_their_middle_and_skewed_ones_their_peak() {
    for (text, expected) in [
        ("random(1, 101)", "int 51"),
        ("random(1, 100 * :scale)", "int 500"),
        ("random(1, 100 * :scale) + 1000 * random(1, 3)", "int 2500"),
        ("random_gaussian(0, 10, 2.5)", "int 5"),
        ("random_zipfian(1, 1000, 1.2)", "int 1"),
        ("random_exponential(7, 1000, 2)", "int 7"),
        ("sysbench_zipf(3, 1000, 0.8)", "int 3"),
        ("greatest(1, random(5, 5), 3)", "int 5"),
        ("case when random(1, 9) > 4 then 3 else 1 / 0 end", "int 3"),
        ("abs(-random(0, 4))", "int 2"),
        ("random(0, 4) > 1 and not random(0, 4) > 2", "boolean true"),
        ("true or 1 / 0 = 1", "boolean true"),
        ("false or 1 / 0 = 1", "division by zero"),
        ("random(1, :scale - 20)", "empty range given to random"),
        ("permute(:nothing, 5, 1)", "undefined variable \"nothing\""),
        ("random(1, null)", "null"),
    ] {
        assert_eq!(typical(text, 0.5), expected, "{text}");
    }
    assert_eq!(typical("random(0, 80)", 0.125), "int 10");
    assert_eq!(typical("random(-9223372036854775807, -1)", 1.0), "int -1");
}

#[test]
fn statements_are_cut_at_the_semicolons_that_end_them() {
    let text = "-- first; not a statement\nSELECT ';', $$ ; $$ ;; UPDATE t SET a = (SELECT 1;) ;\nEND";
    assert_eq!(split_sql(text), ["SELECT ';', $$ ; $$", "UPDATE t SET a = (SELECT 1;)", "END"]);
    assert_eq!(split_sql("SELECT 'open; SELECT 2"), ["SELECT 'open; SELECT 2"]);
    assert!(split_sql(" ; ").is_empty());
}
