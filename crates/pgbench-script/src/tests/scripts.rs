//! Scripts cut into commands.

use std::time::Duration;

use super::super::command::Script;
use super::super::{Command, Names, Rng, ShellWord, SqlText, Store, Value, Vars, parse_script};
use super::{simple, vars_with};

fn script(text: &str) -> (Script, Names) {
    let mut names = Names::new();
    match parse_script(text, "mine.sql", &mut names, true) {
        Ok(script) => (script, names),
        Err(error) => panic!("{error}"),
    }
}

/// The statements a script sends in simple mode, with the values the script sets.
fn sent(text: &str) -> Vec<String> {
    let (script, names) = script(text);
    let mut vars = Vars::new(&names);
    let mut rng = Rng::new(1);
    let mut sent = Vec::new();
    let mut next = 0;
    while let Some(command) = script.commands.get(next) {
        next += 1;
        match command {
            Command::Set { slot, expr, .. } => {
                let value = expr.eval(&mut vars, &mut rng).unwrap();
                vars.set(*slot, value);
            }
            Command::Sql { text, .. } => {
                sent.push(simple(text, &vars, &names));
            }
            Command::JumpUnless { condition, target, .. } => {
                let holds = condition.eval_truth(&mut vars, &mut rng).unwrap();
                next = if holds { next } else { *target };
            }
            Command::Jump { target } => next = *target,
            _ => {}
        }
    }
    sent
}

#[test]
fn statements_end_at_semicolons_outside_quotes_comments_and_parentheses() {
    assert_eq!(
        sent(
            "SELECT 'a;''b'; SELECT \";\"\"\" ;\nSELECT $$;$$, $x$ ; $y$ $x$ ;SELECT (1;2);SELECT 1 /* ; /* ; */ ; */ + 2; SELECT 3"
        ),
        [
            "SELECT 'a;''b';",
            "SELECT \";\"\"\" ;",
            "SELECT $$;$$, $x$ ; $y$ $x$ ;",
            "SELECT (1;2);",
            "SELECT 1 /* ; /* ; */ ; */ + 2;",
            "SELECT 3",
        ]
    );
}

#[test]
fn only_strings_with_e_have_escapes_and_a_string_goes_on_in_the_next_line() {
    assert_eq!(
        sent(r"SELECT '\'; SELECT E'\';'; SELECT e'\\';"),
        [r"SELECT '\';", r"SELECT E'\';';", r"SELECT e'\\';"]
    );
    assert_eq!(sent("SELECT E'a' -- x\n '\\';'; SELECT 2;"), ["SELECT E'a' -- x\n '\\';';", "SELECT 2;"]);
    assert_eq!(sent("SELECT typee'\\'; SELECT 2;"), ["SELECT typee'\\';", "SELECT 2;"]);
}

#[test]
fn a_dollar_in_a_name_or_before_a_digit_opens_no_string() {
    assert_eq!(
        sent("SELECT a$b$; SELECT $1$2; SELECT a$$;"),
        ["SELECT a$b$;", "SELECT $1$2;", "SELECT a$$;"]
    );
}

#[test]
fn comments_before_a_statement_are_dropped_and_those_in_it_are_sent() {
    assert_eq!(
        sent("-- a; b\n  -- 'c\nSELECT 1 -- d; 'e\n , 2; -- f\n/* g */ SELECT 3;"),
        ["SELECT 1 -- d; 'e\n , 2;", "/* g */ SELECT 3;"]
    );
    // Nothing but such a comment is sent too, as pgbench does: an empty query.
    assert_eq!(sent("/* only this */\n\\set x 1\nSELECT :x"), ["/* only this */", "SELECT 1"]);
    assert_eq!(sent(";"), [";"]);
}

#[test]
fn semicolons_behind_a_backslash_keep_statements_together() {
    assert_eq!(
        sent("SELECT 1\\; SELECT 2 \\;SELECT 3; SELECT 4;"),
        ["SELECT 1; SELECT 2 ;SELECT 3;", "SELECT 4;"]
    );
}

#[test]
fn the_body_of_a_function_is_part_of_the_statement() {
    let create = "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;";
    assert_eq!(sent(&format!("{create} BEGIN; SELECT 1; END;")), [create, "BEGIN;", "SELECT 1;", "END;"]);
}

#[test]
fn variables_are_put_in_wherever_a_colon_and_a_name_stand() {
    assert_eq!(
        sent("\\set a 5\nSELECT :a, ':a', :a::int, 1::a, :1a, '12:30', :b, a[1:2], ::::a, :ab -- :a\n;"),
        ["SELECT 5, '5', 5::int, 1::a, :1a, '12:30', :b, a[1:2], ::::a, :ab -- 5\n;"]
    );
    assert_eq!(sent("\\set größe 2\nSELECT :größe;"), ["SELECT 2;"]);
    let (script, names) = script("SELECT :a + :b + :a::int");
    let Command::Sql { text, .. } = &script.commands[0] else { panic!() };
    let read: Vec<&str> = text.variables().map(|slot| names.name(slot)).collect();
    assert_eq!(read, ["a", "b", "a"]);
}

#[test]
fn values_are_written_as_pgbench_writes_them() {
    let sets = "\\set n null\n\\set t true\n\\set d 0.1 + 0.2\n\\set i -9223372036854775808\n\\set g 1e20\n";
    assert_eq!(
        sent(&format!("{sets}SELECT :n, :t, :d, :i, :g;")),
        ["SELECT NULL, true, 0.3, -9223372036854775808, 1e+20;"]
    );
}

#[test]
fn a_meta_command_ends_with_its_line_unless_a_backslash_continues_it() {
    assert_eq!(
        sent("\\set a 1 + \\\n 2 \\\r\n + 3\n\\set b :a\r\n\\ set c 9\nSELECT :a, :b, :c"),
        ["SELECT 6, 6, 9"]
    );
    assert_eq!(sent("\\set\\\n a\\\n 4\nSELECT :a;"), ["SELECT 4;"]);
    // A statement needs no semicolon in front of one.
    assert_eq!(sent("SELECT 1\n\\set x 2\nSELECT :x;"), ["SELECT 1", "SELECT 2;"]);
    assert_eq!(sent("\\\nSELECT 1;"), ["SELECT 1;"]);
}

#[test]
fn conditions_choose_one_branch() {
    let text = "\\if :a = 1\nSELECT 'one';\n\\elif :a = 2\nSELECT 'two';\n\\elif :a\n\\if :a > 5\nSELECT 'many';\n\\else\nSELECT 'some';\n\\endif\n\\else\nSELECT 'none';\n\\endif\nSELECT 'end';";
    for (a, expected) in
        [("1", "one"), ("2", "two"), ("3", "some"), ("9", "many"), ("0", "none"), ("null", "none")]
    {
        let sent = sent(&format!("\\set a {a}\n{text}"));
        assert_eq!(sent, [format!("SELECT '{expected}';"), "SELECT 'end';".into()], "{a}");
    }
    assert_eq!(sent("\\if 0\nSELECT 1;\n\\endif\n"), [""; 0]);
    assert_eq!(sent("\\if 1\n\\endif\n"), [""; 0]);
}

#[test]
fn every_jump_leads_forward_into_the_script() {
    let (script, _) = script(
        &"\\if 1\n\\if 0\n\\elif 1\nSELECT 1;\n\\else\n\\endif\n\\else\nSELECT 2;\n\\endif\n".repeat(20),
    );
    for (index, command) in script.commands.iter().enumerate() {
        if let Command::Jump { target } | Command::JumpUnless { target, .. } = command {
            assert!(index < *target && *target <= script.commands.len());
        }
    }
}

#[test]
fn results_are_stored_by_the_statement_before() {
    let (script, _) =
        script("SELECT 1 AS a \\gset\nSELECT 2 AS b; \\gset p_\nSELECT 3 \\; SELECT 4 \\aset\nSELECT 5;");
    let stores: Vec<Option<Store>> = script
        .commands
        .iter()
        .map(|command| match command {
            Command::Sql { store, .. } => store.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let gset = |prefix: &str| Some(Store::Gset { prefix: prefix.into() });
    assert_eq!(stores, [gset(""), gset("p_"), Some(Store::Aset { prefix: "".into() }), None]);
}

#[test]
fn statements_are_named_by_their_first_line_and_commands_know_theirs() {
    let (script, _) =
        script("-- x\n\nSELECT 1,\n 2;\n\\set a 1\n  SELECT 'ä'; SELECT 3;\n\\if 1\n\\sleep 1\n\\endif");
    // The condition of \if and what it guards; \endif is none.
    assert_eq!(script.lines, [3, 5, 6, 6, 7, 8]);
    let Command::Sql { name, .. } = &script.commands[0] else { panic!() };
    assert_eq!(&**name, "SELECT 1,");
}

#[test]
fn sleep_has_a_number_or_a_variable_and_a_unit() {
    let (script, names) = script(
        "\\sleep 2\n\\sleep 3 ms\n\\sleep 4us\n\\sleep :t\n\\sleep :t MS\n\\sleep -1\n\\sleep :text ms\n\\sleep :bad",
    );
    let values = [("t", Value::Int(7)), ("text", Value::Text("12ab".into())), ("bad", Value::Bool(true))];
    let vars = vars_with(&names, values.map(|(name, value)| (names.get(name).unwrap(), value)));
    let durations: Vec<_> = script
        .commands
        .iter()
        .map(|command| match command {
            Command::Sleep { sleep, .. } => sleep.duration(&vars).map_err(|error| error.message),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        durations,
        [
            Ok(Duration::from_secs(2)),
            Ok(Duration::from_millis(3)),
            Ok(Duration::from_micros(4)),
            Ok(Duration::from_secs(7)),
            Ok(Duration::from_millis(7)),
            Ok(Duration::ZERO),
            Ok(Duration::from_millis(12)),
            Err("sleep: invalid sleep time \"true\" for variable \"bad\"".into()),
        ]
    );
    let Command::Sleep { sleep, .. } = &script.commands[3] else { panic!() };
    assert_eq!(sleep.duration(&Vars::default()).unwrap_err().message, "sleep: undefined variable \"t\"");
}

#[test]
fn an_expression_that_fails_names_its_place() {
    let (script, names) = script("SELECT 1;\n\n  \\set x 1 / \\\n  :y\n\\if :z\n\\endif");
    let mut vars = vars_with(&names, [(names.get("y").unwrap(), Value::Int(0))]);
    let Command::Set { expr, .. } = &script.commands[1] else { panic!() };
    let error = expr.eval(&mut vars, &mut Rng::new(1)).unwrap_err();
    assert_eq!(error.to_string(), "mine.sql:3: division by zero\n    \\set x 1 / \\");
    let Command::JumpUnless { condition, .. } = &script.commands[2] else { panic!() };
    let error = condition.eval_truth(&mut vars, &mut Rng::new(1)).unwrap_err();
    assert_eq!(error.to_string(), "mine.sql:5: undefined variable \"z\"\n    \\if :z");
}

#[test]
fn pipelines_and_programs() {
    let (script, names) = script(
        "\\startpipeline\nSELECT 1;\n\\SyncPipeline\n\\endpipeline\n\\shell echo :a ::b c:d\n\\setshell x echo :a",
    );
    assert!(matches!(script.commands[0], Command::StartPipeline));
    assert!(matches!(script.commands[2], Command::SyncPipeline));
    assert!(matches!(script.commands[3], Command::EndPipeline));
    let vars = vars_with(&names, [(names.get("a").unwrap(), Value::Int(3))]);
    let Command::Shell { words, .. } = &script.commands[4] else { panic!() };
    assert_eq!(ShellWord::join(words, &vars).unwrap(), "echo 3 :b c:d");
    let Command::SetShell { slot, words, .. } = &script.commands[5] else { panic!() };
    assert_eq!(names.name(*slot), "x");
    assert!(
        ShellWord::join(words, &Vars::default()).unwrap_err().message.contains("undefined variable \"a\"")
    );
}

#[test]
fn statements_with_parameters_have_at_most_255() {
    let text = |count: usize| format!("SELECT 1;\nSELECT {};", vec![":v"; count].join(","));
    let (most, _) = script(&text(SqlText::MAX_VARIABLES));
    assert!(most.check_extended(&text(255)).is_ok());
    let (more, _) = script(&text(256));
    let error = more.check_extended(&text(256)).unwrap_err();
    assert_eq!(error.line, 2);
    assert!(error.message.contains("maximum is 255"));
}

#[test]
fn large_scripts_take_time_in_proportion() {
    // Quadratic reading of this would take minutes, not a second.
    let block = "\\set aid random(1, 100000 * :scale)\nSELECT 'x' -- c\n FROM t WHERE a = :aid AND b = $$q$$;\n\\if :aid\n\\endif\n";
    let text = block.repeat(2_000_000 / block.len() + 1);
    let (script, names) = script(&text);
    assert!(script.commands.len() > 40_000);
    assert_eq!(names.len(), 2);
    for one_statement in ["SELECT '".to_string() + &"a''".repeat(600_000) + "';", "x\n".repeat(1_000_000)] {
        assert_eq!(sent(&one_statement).len(), 1);
    }
    let deep = "\\if 1\n".repeat(200_000) + &"\\endif\n".repeat(200_000);
    assert_eq!(parse_script(&deep, "deep.sql", &mut Names::new(), false).unwrap().commands.len(), 200_000);
}

#[test]
fn the_built_in_tpcb_like_script() {
    let (script, names) = script(
        "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\nBEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;\n",
    );
    assert_eq!(script.commands.len(), 8);
    let mut all: Vec<&str> = (0..names.len() as u32).map(|slot| names.name(slot)).collect();
    all.sort_unstable();
    assert_eq!(all, ["aid", "bid", "delta", "scale", "tid"]);
}

#[test]
fn a_pipeline_needs_the_extended_protocol() {
    let text = "SELECT 1;\n\\startpipeline\nSELECT 2;\n\\endpipeline\n";
    let error = script(text).0.check_simple(text).unwrap_err();
    assert_eq!((error.line, error.column), (2, 1));
    assert!(error.message.contains("cannot use pipeline mode"), "{}", error.message);
    assert!(script("SELECT 1;").0.check_simple("SELECT 1;").is_ok());
}
