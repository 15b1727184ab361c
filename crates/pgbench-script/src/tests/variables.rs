//! Variables, their values and their texts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::super::value::ValueRef;
use super::super::{Expr, Names, Rng, Value, Vars};
use super::{printed, vars_with};

/// `:v` evaluated with `v` set to a text.
fn read(text: &str) -> String {
    let mut names = Names::new();
    let expr = Expr::parse(":v", &mut names).unwrap();
    let mut vars = vars_with(&names, [(0, Value::Text(text.into()))]);
    match expr.eval(&mut vars, &mut Rng::new(1)) {
        Ok(value) => printed(&value),
        Err(error) => error.message,
    }
}

#[test]
fn text_is_read_as_what_it_looks_like() {
    for (text, expected) in [
        ("NULL", "null"),
        ("t", "boolean true"),
        ("True", "boolean true"),
        ("y", "boolean true"),
        ("on", "boolean true"),
        ("FAL", "boolean false"),
        ("n", "boolean false"),
        ("of", "boolean false"),
        ("off", "boolean false"),
        ("12", "int 12"),
        ("  -007", "int -7"),
        ("+3", "int 3"),
        ("1.5", "double 1.5"),
        ("1e3", "double 1000"),
        (" .5", "double 0.5"),
        ("inf", "double Infinity"),
        ("", "variable \"v\" is empty"),
        ("o", "malformed variable \"v\" value: \"o\""),
        ("1e999", "malformed variable \"v\" value: \"1e999\""),
        ("hello", "malformed variable \"v\" value: \"hello\""),
        ("12 ", "malformed variable \"v\" value: \"12 \""),
        (
            "9223372036854775808",
            "value \"9223372036854775808\" of variable \"v\" is out of range for type bigint",
        ),
    ] {
        assert_eq!(read(text), expected, "{text:?}");
    }
}

#[test]
fn text_that_is_exactly_an_integer_becomes_one() {
    assert_eq!(Value::from_text("-42"), Value::Int(-42));
    for text in ["007", "+1", " 1", "1.0", "", "null", "-0", "9223372036854775808"] {
        assert_eq!(Value::from_text(text), Value::Text(text.into()));
    }
}

#[test]
fn a_variable_alone_gives_its_text() {
    let mut names = Names::new();
    let (alone, more) = (Expr::parse(":v", &mut names).unwrap(), Expr::parse(":v + 1", &mut names).unwrap());
    let mut vars = vars_with(&names, [(0, Value::Text("007".into()))]);
    assert_eq!((alone.text(&vars), more.text(&vars)), (Some("007"), None));
    vars.set(0, Value::Int(7));
    assert_eq!(alone.text(&vars), None);
}

#[test]
fn doubles_print_fifteen_digits() {
    let print = |value: f64| printed(&Value::Double(value));
    for (value, text) in [
        (0.1, "0.1"),
        (100.0, "100"),
        (1e14, "100000000000000"),
        (1e15, "1e+15"),
        (999_999_999_999_999.9, "1e+15"),
        (123_456.789, "123456.789"),
        (1e-4, "0.0001"),
        (9.999_999_999_999_999e-5, "0.0001"),
        (1e-5, "1e-05"),
        (-1.5e300, "-1.5e+300"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
        (-0.0, "-0"),
    ] {
        assert_eq!(print(value), format!("double {text}"));
    }
}

#[test]
fn a_name_has_one_slot() {
    let mut names = Names::new();
    let slots = [names.slot("a"), names.slot("b"), names.slot("a")];
    assert_eq!(slots, [0, 1, 0]);
    assert_eq!((names.get("b"), names.get("c"), names.name(1), names.len()), (Some(1), None, "b", 2));
}

#[test]
fn valid_names() {
    for name in ["a", "_", "A1", "größe", "x_2"] {
        assert!(Names::is_valid(name), "{name}");
    }
    for name in ["", "1", "1a", "a-b", "a b", "?column?"] {
        assert!(!Names::is_valid(name), "{name}");
    }
}

#[test]
fn a_slot_is_unset_until_it_is_set() {
    let mut names = Names::new();
    let (a, b) = (names.slot("a"), names.slot("b"));
    let mut vars = Vars::new(&names);
    assert_eq!(vars.read(a), None);
    assert_eq!(vars.read(b), None);
    vars.set(a, Value::Text("x".into()));
    assert_eq!(vars.read(a), Some(ValueRef::Text("x")));
    vars.set(a, Value::Int(4));
    assert_eq!(vars.read(a), Some(ValueRef::Int(4)));
    // Slots that came later than the values.
    vars.set(7, Value::Null);
    assert_eq!(vars.read(7), Some(ValueRef::Null));
    assert_eq!((vars.read(6), vars.read(99)), (None, None));
    let expr = Expr::parse(":b + 1", &mut names).unwrap();
    assert_eq!(expr.eval(&mut vars, &mut Rng::new(1)).unwrap_err().message, "undefined variable \"b\"");
}

#[test]
fn a_shared_integer_is_seen_by_everybody_at_once() {
    let mut names = Names::new();
    let expr = Expr::parse(":rows + 1", &mut names).unwrap();
    let cell = Arc::new(AtomicI64::new(10));
    let mut one = Vars::new(&names);
    let mut other = one.clone();
    one.share(0, cell.clone());
    other.share(0, cell.clone());
    let mut rng = Rng::new(1);
    assert_eq!(expr.eval_int(&mut one, &mut rng), Ok(11));
    other.set(0, Value::Int(20));
    assert_eq!(expr.eval_int(&mut one, &mut rng), Ok(21));
    assert_eq!(one.read(0), Some(ValueRef::Int(20)));
    one.set(0, Value::Double(2.5));
    assert_eq!(cell.load(Ordering::Relaxed), 2);
    one.set(0, Value::Null);
    assert_eq!(other.read(0), Some(ValueRef::Int(0)));
}
