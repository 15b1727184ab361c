//! Values of expressions, held against those of pgbench.

use super::super::{Expr, Names, Rng, Value, Vars};
use super::{constant, evaluated, examples, printed, vars_with};

#[test]
fn values_and_errors_are_those_of_pgbench() {
    let mut count = 0;
    for (text, expected) in examples(include_str!("expressions.txt")) {
        assert_eq!(evaluated(text), expected, "{text}");
        count += 1;
    }
    assert!(count > 150, "{count}");
}

#[test]
fn random_values_are_those_of_pgbench_for_the_same_seed() {
    // pgbench seeds each client with the next number of a generator seeded with --random-seed.
    let mut rng = Rng::new(Rng::new(42).next_u64());
    let mut names = Names::new();
    for (text, expected) in examples(include_str!("stream.txt")) {
        let expr = Expr::parse(text, &mut names).unwrap();
        let value = expr.eval(&mut Vars::new(&names), &mut rng).unwrap();
        assert_eq!(printed(&value), expected, "{text}");
    }
}

#[test]
fn numbers_are_conditions_as_the_documentation_says() {
    // The table of operators; pgbench itself refuses numbers here.
    assert_eq!(evaluated("5 or 0"), "boolean true");
    assert_eq!(evaluated("3 and 0"), "boolean false");
    assert_eq!(evaluated("not 0.5"), "boolean false");
}

#[test]
fn what_decides_is_evaluated_alone() {
    assert_eq!(evaluated("false and 1 / 0 = 1"), "boolean false");
    assert_eq!(evaluated("true or 1 / 0 = 1"), "boolean true");
    assert_eq!(evaluated("true and 1 / 0 = 1"), "division by zero");
    assert_eq!(evaluated("case when true then 1 else 1 / 0 end"), "int 1");
    assert_eq!(evaluated("case when false then 1 / 0 when 1 then 2 end"), "int 2");
}

#[test]
fn a_failing_constant_fails_when_it_is_evaluated_not_when_it_is_read() {
    let expr = Expr::parse("1 / 0", &mut Names::new()).unwrap();
    assert_eq!(constant(&expr), None);
    let error = expr.eval(&mut Vars::default(), &mut Rng::new(1)).unwrap_err();
    assert_eq!(error.to_string(), "division by zero");
}

#[test]
fn constants_are_computed_once() {
    let constant = |text| constant(&Expr::parse(text, &mut Names::new()).unwrap());
    assert_eq!(constant("1 + 2 * 3"), Some(Value::Int(7)));
    assert_eq!(constant("least(1, 2.5) > 0"), Some(Value::Bool(true)));
    assert_eq!(constant("null"), Some(Value::Null));
    assert_eq!(constant("permute(3, 10, 1)"), Some(Value::Int(2)));
    assert_eq!(constant("random(1, 1)"), None);
    assert_eq!(constant(":x"), None);
    assert_eq!(constant("debug(1)"), None);
}

#[test]
fn integers_and_conditions_are_had_directly() {
    let mut names = Names::new();
    let mut vars = Vars::default();
    let mut rng = Rng::new(1);
    let mut parse = |text| Expr::parse(text, &mut names).unwrap();
    assert_eq!(parse("2.5").eval_int(&mut vars, &mut rng), Ok(2));
    assert_eq!(parse("3.5").eval_int(&mut vars, &mut rng), Ok(4));
    assert_eq!(
        parse("true").eval_int(&mut vars, &mut rng).unwrap_err().message,
        "cannot coerce boolean to int"
    );
    assert_eq!(parse("null").eval_int(&mut vars, &mut rng).unwrap_err().message, "cannot coerce null to int");
    for (text, truth) in
        [("null", false), ("0", false), ("-3", true), ("0.0", false), ("0.1", true), ("true", true)]
    {
        assert_eq!(parse(text).eval_truth(&mut vars, &mut rng), Ok(truth), "{text}");
    }
}

#[test]
fn names_and_key_words_have_no_case() {
    assert_eq!(evaluated("Greatest(1, ABS(-2))"), "int 2");
    assert_eq!(evaluated("Case When NULL Is Null Then TRUE End"), "boolean true");
}

#[test]
fn lines_do_not_matter_in_an_expression_that_stands_alone() {
    assert_eq!(evaluated("1 +\n 2 * \\\n 3"), "int 7");
}

#[test]
fn sysbench_zipf_checks_its_arguments() {
    assert_eq!(evaluated("sysbench_zipf(5, 5, 0.8)"), "int 5");
    assert_eq!(
        evaluated("sysbench_zipf(1, 10, 0)"),
        "sysbench_zipf exponent must be greater than zero (not 0.000000)"
    );
    assert_eq!(evaluated("sysbench_zipf(2, 1, 1)"), "empty range given to random");
    assert_eq!(evaluated("sysbench_zipf(1, 10, null)"), "null");
}

#[test]
fn a_long_row_of_operators_is_evaluated() {
    let mut names = Names::new();
    let x = names.slot("x");
    let sum = vec![":x"; 900].join(" + ");
    let mut vars = vars_with(&names, [(x, Value::Int(2))]);
    let expr = Expr::parse(&sum, &mut names).unwrap();
    assert_eq!(expr.eval_int(&mut vars, &mut Rng::new(1)), Ok(1800));
    let constants = vec!["1"; 100_000].join(" + ");
    assert_eq!(constant(&Expr::parse(&constants, &mut names).unwrap()), Some(Value::Int(100_000)));
}
