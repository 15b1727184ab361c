//! What must hold for every script, expression and number.

use proptest::prelude::*;

use super::super::hash::permute;
use super::super::{Command, Expr, Names, Rng, SqlText, Value, Vars, decode, parse_script};
use super::simple;

/// An arithmetic expression and what i128 makes of it.
#[derive(Clone, Debug)]
enum Tree {
    Int(i64),
    Variable(i64),
    Negated(Box<Tree>),
    Operation(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// The value, or the message pgbench has for the first thing that goes wrong.
    fn value(&self) -> Result<i64, &'static str> {
        let fits = |value: i128, message| i64::try_from(value).map_err(|_| message);
        match self {
            Tree::Int(value) | Tree::Variable(value) => Ok(*value),
            Tree::Negated(inner) => fits(-i128::from(inner.value()?), "bigint sub out of range"),
            Tree::Operation(operator, left, right) => {
                let (left, right) = (i128::from(left.value()?), i128::from(right.value()?));
                match operator {
                    '+' => fits(left + right, "bigint add out of range"),
                    '-' => fits(left - right, "bigint sub out of range"),
                    '*' => fits(left * right, "bigint mul out of range"),
                    '/' if right == 0 => Err("division by zero"),
                    '/' => fits(left / right, "bigint div out of range"),
                    '%' if right == 0 => Err("division by zero"),
                    _ => fits(left % right, ""),
                }
            }
        }
    }

    /// The text, with parentheses only where they are needed. Variables get the next number.
    fn print(&self, variables: &mut Vec<i64>) -> String {
        match self {
            Tree::Int(value) if *value < 0 => format!("({value})"),
            Tree::Int(value) => value.to_string(),
            Tree::Variable(value) => {
                variables.push(*value);
                format!(":v{}", variables.len() - 1)
            }
            Tree::Negated(inner) => format!("- {}", inner.enclosed(3, variables)),
            Tree::Operation(operator, left, right) => {
                let rank = self.rank();
                format!(
                    "{}{operator} {}",
                    left.enclosed(rank, variables),
                    right.enclosed(rank + 1, variables)
                )
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Tree::Int(_) | Tree::Variable(_) => 4,
            Tree::Negated(_) => 3,
            Tree::Operation('+' | '-', ..) => 1,
            Tree::Operation(..) => 2,
        }
    }

    fn enclosed(&self, lowest: u8, variables: &mut Vec<i64>) -> String {
        let text = self.print(variables);
        if self.rank() < lowest { format!("({text})") } else { text }
    }
}

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![
        -20..20i64,
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
        Just(-1),
        Just(0),
        (-2_000_000_000..2_000_000_000i64),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![integer().prop_map(Tree::Int), integer().prop_map(Tree::Variable)];
    leaf.prop_recursive(6, 40, 2, |inner| {
        let operator = prop::sample::select(vec!['+', '-', '*', '/', '%']);
        prop_oneof![
            1 => inner.clone().prop_map(|tree| Tree::Negated(Box::new(tree))),
            5 => (operator, inner.clone(), inner)
                .prop_map(|(operator, left, right)| Tree::Operation(operator, Box::new(left), Box::new(right))),
        ]
    })
}

/// Text made of the words of the language, in any order.
fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "\\set ",
        "x ",
        "\\if ",
        "\\elif ",
        "\\else",
        "\\endif",
        "\\gset",
        "\\aset ",
        "\\sleep ",
        "\\startpipeline",
        "\\;",
        "\\",
        "\n",
        "\\\n",
        "\r\n",
        " ",
        "\t",
        "(",
        ")",
        ",",
        ":x",
        ":",
        "::",
        "1",
        "2.5",
        "9223372036854775808",
        "1e",
        "e'",
        "'",
        "\"",
        "$$",
        "$a$",
        "$",
        "--",
        "/*",
        "*/",
        ";",
        "+",
        "-",
        "*",
        "/",
        "%",
        "~",
        "<",
        "<>",
        "=",
        "!=",
        "<<",
        "|",
        "#",
        "&",
        "and ",
        "or ",
        "not ",
        "is ",
        "null ",
        "true ",
        "isnull ",
        "case ",
        "when ",
        "then ",
        "else ",
        "end ",
        "random(",
        "permute(",
        "least(",
        "hash(",
        "debug",
        "sysbench_zipf(",
        "create function ",
        "begin ",
        "ü",
        "\u{10ffff}",
        "\0",
        "\x0b",
    ];
    prop::collection::vec(prop::sample::select(words), 0..40).prop_map(|words| words.concat())
}

/// A statement with quotes and comments that hide semicolons and colons.
fn statement() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("SELECT 1".to_string()),
        "[a-z ,+*]{1,8}",
        "'([a-z;:\\\\ \n]|'')*'",
        "E'([a-z;: ]|\\\\'|\\\\\\\\)*'",
        "\"([a-z;: ]|\"\")*\"",
        "[$]q[$][a-z;'\" ]*[$]q[$]",
        "/[*][a-z;' ]*[*]/",
        "--[a-z;' ]*\n",
        "[(][a-z;]*[)]",
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| format!("S {} X;", pieces.join(" , ")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arithmetic_is_that_of_integers(tree in tree()) {
        let mut variables = Vec::new();
        let text = tree.print(&mut variables);
        let mut names = Names::new();
        let expr = Expr::parse(&text, &mut names).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut vars = Vars::new(&names);
        for (number, value) in variables.iter().enumerate() {
            vars.set(names.slot(&format!("v{number}")), Value::Int(*value));
        }
        let value = expr.eval_int(&mut vars, &mut Rng::new(1)).map_err(|error| error.message);
        prop_assert_eq!(value, tree.value().map_err(String::from), "{}", text);
    }

    #[test]
    fn random_stays_in_its_range(low in integer(), high in integer(), seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let (low, high) = (low.min(high), low.max(high));
        let drawn = rng.uniform(low, high);
        prop_assert!(low <= drawn && drawn <= high);
        if high.checked_sub(low).is_some_and(|span| span < i64::MAX) {
            for function in ["random({}, {})", "random_gaussian({}, {}, 2.0)", "random_exponential({}, {}, 0.7)", "random_zipfian({}, {}, 1.3)", "sysbench_zipf({}, {}, 0.9)"] {
                let text = function.replacen("{}", &low.to_string(), 1).replacen("{}", &high.to_string(), 1);
                let expr = Expr::parse(&text, &mut Names::new()).unwrap();
                let drawn = expr.eval_int(&mut Vars::default(), &mut rng).unwrap();
                prop_assert!(low <= drawn && drawn <= high, "{} = {}", text, drawn);
            }
        }
    }

    #[test]
    fn permute_is_a_permutation(size in 1i64..2000, seed in any::<i64>()) {
        let mut met = vec![false; size as usize];
        for value in 0..size {
            let place = permute(value, size, seed);
            prop_assert!((0..size).contains(&place) && !met[place as usize]);
            met[place as usize] = true;
        }
    }

    #[test]
    fn permute_of_a_large_size_keeps_values_apart(size in 2i64.., a in 0i64.., b in 0i64.., seed in any::<i64>()) {
        let (from_a, from_b) = (permute(a, size, seed), permute(b, size, seed));
        prop_assert!((0..size).contains(&from_a));
        prop_assert_eq!(a % size == b % size, from_a == from_b);
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>(), soup in soup(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut names = Names::new();
        for text in [&text, &soup] {
            let _ = Expr::parse(text, &mut names).map(|expr| expr.eval(&mut Vars::default(), &mut Rng::new(1)));
            if let Err(error) = parse_script(text, "f", &mut names, true) {
                let lines = text.split('\n').count();
                prop_assert!(1 <= error.line && error.line <= lines && error.column >= 1, "{}", error);
            }
        }
        if let Ok(text) = decode(&bytes, "f") {
            let _ = parse_script(text, "f", &mut names, false);
        }
    }

    #[test]
    fn statements_come_out_as_they_went_in(statements in prop::collection::vec(statement(), 1..8)) {
        let text = statements.join("\n-- between; them's a comment\n");
        let mut names = Names::new();
        let script = parse_script(&text, "f", &mut names, false).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let found: Vec<String> = script.commands.iter().map(|command| match command {
            Command::Sql { text, .. } => simple(text, &Vars::default(), &names),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(found, statements);
    }

    #[test]
    fn a_statement_without_variables_set_is_what_was_written(sql in "[a-z:é0-9_' ]{0,40}") {
        let mut names = Names::new();
        let text = SqlText::parse(&sql, &mut names);
        prop_assert_eq!(simple(&text, &Vars::default(), &names), sql);
    }

    #[test]
    fn integers_print_and_read_back(value in any::<i64>()) {
        let mut text = Vec::new();
        Value::Int(value).write_text(&mut text);
        prop_assert_eq!(String::from_utf8(text).unwrap(), value.to_string());
        prop_assert_eq!(Value::from_text(&value.to_string()), Value::Int(value));
    }

    #[test]
    fn doubles_print_fifteen_digits_that_read_back(value in any::<f64>().prop_filter("finite", |value| value.is_normal())) {
        let mut text = Vec::new();
        Value::Double(value).write_text(&mut text);
        let read: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
        // The largest doubles can round up to infinity.
        prop_assert!(read.is_infinite() && value.abs() > 1.797e308 || (read - value).abs() <= value.abs() * 5.1e-15);
    }
}
