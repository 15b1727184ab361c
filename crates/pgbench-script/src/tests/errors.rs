//! Messages about scripts and expressions that cannot be understood.

use super::super::{Expr, Names, ScriptError, decode, parse_script};

fn wrong_script(text: &str) -> ScriptError {
    match parse_script(text, "mine.sql", &mut Names::new(), false) {
        Ok(_) => panic!("accepted: {text:?}"),
        Err(error) => error,
    }
}

/// Line, column and message of the error of a script.
#[track_caller]
fn check(text: &str, line: usize, column: usize, message: &str) {
    let error = wrong_script(text);
    assert_eq!((error.line, error.column), (line, column), "{text:?}: {error}");
    assert!(error.message.contains(message), "{text:?}: {}", error.message);
    assert_eq!(error.file, "mine.sql");
}

#[test]
fn an_error_names_file_line_and_column_and_points_into_the_line() {
    let error = wrong_script("SELECT 1;\n\\set y 1 + * 2\nSELECT 2;\n");
    assert_eq!(
        error.to_string(),
        "mine.sql:2:12: syntax error: expected a value, found \"*\"\n    \\set y 1 + * 2\n               ^"
    );
}

#[test]
fn columns_count_characters_and_a_tab_is_one() {
    let error = wrong_script("\\set é\t1 + ü");
    assert_eq!((error.line, error.column), (1, 12));
    assert_eq!(error.source_line, "\\set é 1 + ü");
    assert_eq!(error.caret, 11);
}

#[test]
fn a_long_line_is_cut_around_the_place() {
    let text = format!("\\set x {} + ) + {}", "1 + ".repeat(40) + "1", "1 + ".repeat(50_000));
    let error = wrong_script(&text);
    assert_eq!(error.source_line.chars().nth(error.caret), Some(')'));
    assert!(error.source_line.len() <= 130);
    assert_eq!(text.chars().nth(error.column - 1), Some(')'));
}

#[test]
fn an_error_behind_a_continued_line_is_in_its_own_line() {
    check("\\set x 1 + \\\n  2 + \\\n  ?", 3, 3, "unexpected character \"?\"");
}

#[test]
fn expressions() {
    check("\\set x", 1, 7, "an expression is missing");
    check("\\set x 1 +\n", 1, 11, "found the end of the line");
    check("\\set x 1 +\nSELECT 1;", 1, 11, "found the end of the line");
    check("\\set x (1 + 2", 1, 14, "expected \")\"");
    check("\\set x 1 = 2 = 3", 1, 14, "needs parentheses");
    check("\\set x randm(1, 2)", 1, 8, "did you mean \"random\"?");
    check("\\set x rand(1, 2)", 1, 8, "did you mean \"random\"?");
    check("\\set x frobnicate(1, 2)", 1, 8, "unexpected function name \"frobnicate\"");
    check("\\set x random", 1, 8, "is no value");
    check("\\set x random(1)", 1, 8, "random takes 2 arguments, not 1");
    check("\\set x hash()", 1, 8, "hash takes 1 or 2 arguments, not 0");
    check("\\set x pi(1)", 1, 8, "pi takes no argument, not 1");
    check("\\set x 99999999999999999999", 1, 8, "bigint constant overflow");
    check("\\set x 9223372036854775808", 1, 8, "bigint constant overflow");
    check("\\set x 1e999", 1, 8, "double constant overflow");
    check("\\set x 'a'", 1, 8, "unexpected character \"'\"");
    check("\\set x case when 1 then 2", 1, 26, "expected WHEN, ELSE or END");
    check("\\set x case 1 end", 1, 13, "expected WHEN");
    check("\\set x 1 is 2", 1, 13, "expected NULL, TRUE or FALSE");
    check("\\if", 1, 4, "an expression is missing");
}

#[test]
fn meta_commands() {
    check("\\foo", 1, 1, "invalid command \"\\foo\"");
    check("SELECT 1;\n  \\slep 1", 2, 3, "did you mean \"\\sleep\"?");
    check("\\set", 1, 5, "needs the name of a variable");
    check("\\set 1x 2", 1, 6, "invalid variable name: \"1x\"");
    check("\\set x-y 2", 1, 6, "invalid variable name: \"x-y\"");
    check("\\sleep", 1, 7, "missing argument");
    check("\\sleep abc", 1, 8, "must be an integer");
    check("\\sleep 1 hour", 1, 10, "must be us, ms or s");
    check("\\sleep 1min", 1, 9, "must be us, ms or s");
    check("\\sleep 1 s s", 1, 12, "too many arguments");
    check("\\sleep 99999999999999999999", 1, 8, "out of range");
    check("\\startpipeline now", 1, 16, "unexpected argument \"now\"");
    check("\\gset", 1, 1, "must follow an SQL command");
    check("SELECT 1 \\gset a b", 1, 18, "too many arguments");
    check("SELECT 1 \\gset 1a", 1, 16, "invalid prefix");
    check("SELECT 1 \\gset\n\\aset", 2, 1, "must follow an SQL command");
    check("\\if 1\nSELECT 1;\n\\endif\n\\gset", 4, 1, "must follow an SQL command");
}

#[test]
fn programs_are_not_run_unless_allowed() {
    check("\\shell true", 1, 1, "\\shell runs a program on this machine, which is not allowed here");
    check("\\setshell x echo 1", 1, 1, "\\setshell runs a program");
    let mut names = Names::new();
    let wrong =
        |text: &str, names: &mut Names| parse_script(text, "s", names, true).map(|_| ()).unwrap_err().message;
    assert!(wrong("\\shell", &mut names).contains("missing command"));
    assert!(wrong("\\setshell x", &mut names).contains("missing command"));
    assert!(wrong("\\setshell", &mut names).contains("needs the name of a variable"));
}

#[test]
fn conditions() {
    check("SELECT 1;\n\\if 1\n\\if 2\n\\endif\n", 2, 1, "\\if without matching \\endif");
    check("\\else", 1, 1, "\\else without matching \\if");
    check("\\elif 1", 1, 1, "\\elif without matching \\if");
    check("\\endif", 1, 1, "\\endif without matching \\if");
    check("\\if 1\n\\else\n\\else\n\\endif", 3, 1, "\\else after \\else");
    check("\\if 1\n\\else\n\\elif 1\n\\endif", 3, 1, "\\elif after \\else");
}

#[test]
fn what_is_never_closed() {
    check("SELECT 1;\nSELECT 'abc;\nSELECT 2;", 2, 8, "quoted string is never closed");
    check("SELECT \"abc;", 1, 8, "quoted identifier is never closed");
    check("SELECT $x$ abc $y$;", 1, 8, "dollar-quoted string $x$ is never closed");
    check("SELECT /* /* */ 1;", 1, 8, "comment is never closed");
    check("SELECT (1;\nSELECT 2;", 1, 8, "parenthesis is never closed");
    check("SELECT E'abc\\';", 1, 9, "quoted string is never closed");
}

#[test]
fn empty_scripts_nul_characters_and_other_encodings() {
    for text in ["", "\n\n", "-- nothing\n", "\\\n"] {
        check(text, 1, 1, "the script is empty");
    }
    check("SELECT 1;\nSELECT '\0';", 2, 9, "NUL character");
    let error = decode(b"SELECT 1;\nSELECT '\xff';", "latin.sql").unwrap_err();
    assert_eq!((error.line, error.column), (2, 9));
    assert!(error.message.contains("0xff is not UTF-8"), "{error}");
    assert_eq!(decode("SELECT 'ü';".as_bytes(), "x"), Ok("SELECT 'ü';"));
}

#[test]
fn an_expression_alone_has_no_file() {
    let error = Expr::parse("1 +\n nope(2)", &mut Names::new()).unwrap_err();
    assert_eq!((error.file.as_str(), error.line, error.column), ("", 2, 2));
    assert!(error.to_string().starts_with("expression:2:2: "));
    assert!(Expr::parse("", &mut Names::new()).is_err());
    assert!(Expr::parse("1\0", &mut Names::new()).unwrap_err().message.contains("NUL"));
}

#[test]
fn what_is_too_deep_is_refused() {
    let mut names = Names::new();
    for text in [
        "(".repeat(1_000_000),
        "-".repeat(1_000_000),
        "not ".repeat(1_000_000),
        "abs(".repeat(1_000_000),
        "case when ".repeat(1_000_000),
        ":x + ".repeat(1_000_000) + "1",
        format!("{}1{}", "(".repeat(250), ")".repeat(250)),
    ] {
        let error = Expr::parse(&text, &mut names).unwrap_err();
        assert!(error.message.contains("within each other"), "{}", error.message);
    }
    assert!(Expr::parse(&format!("{}1{}", "(".repeat(150), ")".repeat(150)), &mut names).is_ok());
}
