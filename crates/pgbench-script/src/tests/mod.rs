//! Tests of the script language.

mod distributions;
mod errors;
mod expressions;
mod properties;
mod scripts;
mod speed;
mod typical;
mod variables;

use super::node::Node;
use super::{Expr, Names, Rng, SqlPart, SqlText, Value, Vars};

/// An expression evaluated with `default_seed` 5432 and no other variable, as `debug()` prints it,
/// or the message of its error.
fn evaluated(text: &str) -> String {
    let mut names = Names::new();
    let seed = names.slot("default_seed");
    let expr = match Expr::parse(text, &mut names) {
        Ok(expr) => expr,
        Err(error) => return format!("parse error: {}", error.message),
    };
    let mut vars = vars_with(&names, [(seed, Value::Int(5432))]);
    match expr.eval(&mut vars, &mut Rng::new(1)) {
        Ok(value) => printed(&value),
        Err(error) => error.message,
    }
}

/// A value as `debug()` prints it.
fn printed(value: &Value) -> String {
    let mut text = Vec::new();
    value.write_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => format!("boolean {text}"),
        Value::Int(_) => format!("int {text}"),
        Value::Double(_) => format!("double {text}"),
        Value::Text(_) => format!("text {text}"),
    }
}

/// The lines of a file of examples, each cut at " => ".
fn examples(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(" => ").unwrap())
}

/// The values given, all other variables unset.
fn vars_with(names: &Names, values: impl IntoIterator<Item = (u32, Value)>) -> Vars {
    let mut vars = Vars::new(names);
    for (slot, value) in values {
        vars.set(slot, value);
    }
    vars
}

/// The value of an expression that was computed when it was compiled.
fn constant(expr: &Expr) -> Option<Value> {
    match expr.root {
        Node::Constant(value) => Some(value.into()),
        _ => None,
    }
}

/// A statement as the simple mode sends it.
fn simple(sql: &SqlText, vars: &Vars, names: &Names) -> String {
    let mut out = Vec::new();
    for part in &sql.parts {
        match part {
            SqlPart::Text(text) => out.extend_from_slice(text.as_bytes()),
            SqlPart::Var(slot) => match vars.read(*slot) {
                Some(value) => value.write_text(&mut out),
                None => out.extend_from_slice(format!(":{}", names.name(*slot)).as_bytes()),
            },
        }
    }
    String::from_utf8(out).unwrap()
}
