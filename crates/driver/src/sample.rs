//! `sample`: the statements of a step with sample values, to ask a server for their plans.
//!
//! A sample takes the middle of each distribution (of the n-th of m repeats: the n-th of m pieces), so it
//! is the same for every server. What cannot be known before the step runs, say a value that an earlier
//! statement returned, is 1.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use pgbench_script::{Value, ValueRef, Vars, split_sql};
use serde::{Deserialize, Serialize};

use crate::compile;
use crate::events::{Event, Events, Failure};
use crate::generate::{self, LocalTime, Piece};
use crate::program::{INT4_OID, INT8_OID, Op, Role, Statement, VARCHAR_OID};
use crate::spec::{Mode, ParamType, RoleSpec};

/// What is read of a spec; the rest may be there or not.
#[derive(Deserialize)]
struct Sampled {
    roles: Vec<RoleSpec>,
    #[serde(default)]
    shared: Vec<String>,
}

/// One line of output.
#[derive(Debug, PartialEq, Serialize)]
struct Sample {
    role: String,
    /// As in `statements_by_name`; where the spec gives none, the beginning of the text.
    name: String,
    /// The statement with values in place.
    sql: String,
    /// The statement as it is prepared; null where the step does not prepare it.
    prepared: Option<PreparedSample>,
}

#[derive(Debug, PartialEq, Serialize)]
struct PreparedSample {
    /// With `$1`, `$2`, … for values.
    text: String,
    /// What is declared; `unknown` where the server finds it out.
    types: Vec<String>,
    /// As text; null for NULL.
    values: Vec<Option<String>>,
}

/// Reads a spec from standard input and prints a JSON line for each statement that has a plan; returns
/// the exit code.
pub fn run() -> i32 {
    let mut text = String::new();
    let found = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Failure::spec(format!("cannot read the spec: {e}")))
        .and_then(|_| samples(&text));
    match found {
        Ok(samples) => {
            for sample in samples {
                println!("{}", serde_json::to_string(&sample).expect("samples are plain data"));
            }
            0
        }
        Err(failure) => {
            Events::new().say(&Event::Error(failure));
            2
        }
    }
}

fn samples(spec: &str) -> Result<Vec<Sample>, Failure> {
    let spec: Sampled =
        serde_json::from_str(spec).map_err(|e| Failure::spec(format!("the spec is not valid: {e}")))?;
    let mut samples = Vec::new();
    let mut seen = HashSet::new();
    for (index, role) in spec.roles.into_iter().enumerate() {
        let role = compile::role(role, index, &spec.shared)?;
        for sample in role_samples(&role) {
            // Statements that differ in numbers only have the same plan.
            let shape = without_numbers(&sample.sql);
            if seen.insert((sample.name.clone(), shape)) {
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

fn role_samples(role: &Role) -> Vec<Sample> {
    let mut collector = Collector { role, samples: Vec::new(), prepared: HashMap::new() };
    let mut vars = Vars::new(&role.names);
    vars.set(role.client_slot, Value::Int(1));
    vars.set(role.client_id_slot, Value::Int(0));
    for (slot, value) in &role.initial {
        vars.set(*slot, value.clone());
    }
    collector.block(&role.start, &mut vars);
    for program in &role.programs {
        collector.block(&program.code, &mut vars.clone());
    }
    collector.samples
}

const MIDDLE: f64 = 0.5;
const UNKNOWN: Value = Value::Int(1);

struct Collector<'a> {
    role: &'a Role,
    samples: Vec<Sample>,
    /// What the role has prepared in SQL, by name.
    prepared: HashMap<String, SqlPrepared>,
}

impl Collector<'_> {
    /// Every statement of the code in its order, whatever the conditions before it say.
    fn block(&mut self, code: &[Op], vars: &mut Vars) {
        for op in code {
            match op {
                Op::Set { slot, expr } => vars.set(*slot, expr.typical(vars, MIDDLE).unwrap_or(UNKNOWN)),
                Op::Sql(index) => self.statement(&self.role.statements[*index], vars),
                _ => {}
            }
        }
    }

    fn statement(&mut self, statement: &Statement, vars: &Vars) {
        let mut writer = Writer {
            vars,
            parameters: statement.mode != Mode::Simple,
            splice: statement.splice.as_ref().map_or(0, |splice| splice.from),
            text: Vec::new(),
            values: Vec::new(),
        };
        writer.pieces(&statement.pieces, MIDDLE);
        let Writer { text, values, .. } = writer;
        let text = String::from_utf8_lossy(&text);
        if let Some((name, prepared)) = SqlPrepared::parse(&text) {
            self.prepared.insert(name, prepared);
        } else if let Some(known) = executed(&text).and_then(|name| self.prepared.get(name)) {
            let sql = known.with_values(&values);
            let values = values.into_iter().map(|value| value.plain).collect();
            let prepared = PreparedSample { text: known.text.clone(), types: known.types.clone(), values };
            self.keep(&statement.name, sql, Some(prepared));
        } else {
            let mut statements = split_sql(&text);
            if statement.mode == Mode::Prepared && statements.len() == 1 {
                let text = String::from_utf8_lossy(&statement.prepared[0].text).into_owned();
                let types = types(statement, values.len());
                let values = values.into_iter().map(|value| value.plain).collect();
                let prepared = PreparedSample { text: bare(&text).to_owned(), types, values };
                self.keep(&statement.name, statements.remove(0), Some(prepared));
            }
            for sql in statements {
                self.keep(&statement.name, sql, None);
            }
        }
    }

    fn keep(&mut self, name: &str, sql: String, prepared: Option<PreparedSample>) {
        if has_plan(&sql) {
            let name = if name.is_empty() { beginning(&sql) } else { name.to_owned() };
            self.samples.push(Sample { role: self.role.name.clone(), name, sql, prepared });
        }
    }
}

/// The names of the types that a Parse message declares.
fn types(statement: &Statement, params: usize) -> Vec<String> {
    let name = |number: usize| match statement.types.get(number) {
        Some(&INT4_OID) => "int4",
        Some(&INT8_OID) => "int8",
        Some(&VARCHAR_OID) => "varchar",
        _ => "unknown",
    };
    (0..params).map(|number| name(number).to_owned()).collect()
}

/// A statement that a role prepares in SQL: `PREPARE name (types) AS text`.
struct SqlPrepared {
    types: Vec<String>,
    text: String,
}

impl SqlPrepared {
    fn parse(sql: &str) -> Option<(String, SqlPrepared)> {
        let (name, rest) = word(behind(sql, "prepare")?);
        let (types, rest) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
        let text = bare(behind(rest, "as")?).to_owned();
        let types = types.split(',').map(|kind| kind.trim().to_owned()).collect();
        Some((name.to_owned(), SqlPrepared { types, text }))
    }

    /// The text with values in place of `$1`, `$2`, ….
    fn with_values(&self, values: &[SampleValue]) -> String {
        let mut pieces = self.text.split('$');
        let mut sql = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            let number: Option<usize> = piece[..end].parse().ok();
            match number.and_then(|n| values.get(n.checked_sub(1)?)) {
                Some(value) => sql.extend([&value.literal, &piece[end..]]),
                None => sql.extend(["$", piece]),
            }
        }
        sql
    }
}

/// The name of the prepared statement that `EXECUTE name …` runs.
fn executed(sql: &str) -> Option<&str> {
    behind(sql, "execute").map(|rest| word(rest).0)
}

/// What stands behind a key word at the beginning.
fn behind<'a>(sql: &'a str, key: &str) -> Option<&'a str> {
    let (first, rest) = word(sql.trim_start());
    first.eq_ignore_ascii_case(key).then(|| rest.trim_start())
}

/// The word at the beginning, and the rest.
fn word(sql: &str) -> (&str, &str) {
    sql.split_at(sql.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(sql.len()))
}

/// A value as SQL has it, and as the protocol carries it: None for NULL.
struct SampleValue {
    literal: String,
    plain: Option<String>,
}

/// A statement with values in place, and the values beside it.
struct Writer<'a> {
    vars: &'a Vars,
    /// Whether values travel as parameters: then text is quoted here and every variable has a value.
    parameters: bool,
    splice: i64,
    text: Vec<u8>,
    values: Vec<SampleValue>,
}

impl Writer<'_> {
    fn pieces(&mut self, pieces: &[Piece], place: f64) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.text.extend_from_slice(text),
                Piece::Splice => self.text.extend_from_slice(self.splice.to_string().as_bytes()),
                Piece::Repeat { n, of, separator, .. } => {
                    for i in 0..*n {
                        if i > 0 {
                            self.text.extend_from_slice(separator);
                        }
                        self.pieces(of, (f64::from(i) + MIDDLE) / f64::from(*n));
                    }
                }
                Piece::Expr(expr, kind) => match expr.text(self.vars) {
                    Some(text) if matches!(kind, ParamType::Text | ParamType::Varchar) => {
                        self.value(ValueRef::Text(text), true);
                    }
                    _ => {
                        let mut value = expr.typical(self.vars, place).unwrap_or(UNKNOWN);
                        if self.parameters && *kind == ParamType::Varchar {
                            value = Value::Text(plain(value.as_ref()).into());
                        }
                        self.value(value.as_ref(), true);
                    }
                },
                Piece::Variable(slot, name) => match self.vars.read(*slot) {
                    Some(value) => self.value(value, self.parameters),
                    None if self.parameters => self.value(UNKNOWN.as_ref(), true),
                    None => self.text.extend_from_slice(format!(":{name}").as_bytes()),
                },
                Piece::Digits(pattern, _) => {
                    let digits = String::from_utf8_lossy(pattern).replace('#', "5");
                    self.value(ValueRef::Text(&digits), true);
                }
                Piece::Fill(fill) => self.value(ValueRef::Text(&"a".repeat(fill.min as usize)), true),
                Piece::Now => {
                    let now = LocalTime::new(None).text();
                    self.value(ValueRef::Text(&String::from_utf8_lossy(&now)), true);
                }
            }
        }
    }

    fn value(&mut self, value: ValueRef<'_>, quote: bool) {
        let plain = plain(value);
        let literal = match value {
            ValueRef::Text(text) if quote => {
                let mut out = Vec::new();
                generate::quoted(text.as_bytes(), &mut out);
                String::from_utf8_lossy(&out).into_owned()
            }
            _ => plain.clone(),
        };
        self.text.extend_from_slice(literal.as_bytes());
        self.values.push(SampleValue { literal, plain: (value != ValueRef::Null).then_some(plain) });
    }
}

fn plain(value: ValueRef<'_>) -> String {
    let mut out = Vec::new();
    value.write_text(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The kinds of statements that EXPLAIN takes.
const PLANNED: [&str; 8] = ["select", "insert", "update", "delete", "with", "values", "table", "merge"];

fn has_plan(sql: &str) -> bool {
    let mut rest = sql;
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind.trim_start());
    }
    PLANNED.iter().any(|known| known.eq_ignore_ascii_case(word(rest).0))
}

/// Without the blanks and the semicolon at the ends.
fn bare(sql: &str) -> &str {
    sql.trim().trim_end_matches(';').trim_end()
}

fn beginning(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().collect();
    words.join(" ").chars().take(80).collect()
}

fn without_numbers(sql: &str) -> String {
    let mut shape = String::with_capacity(sql.len());
    for character in sql.chars() {
        match character {
            '0'..='9' if shape.ends_with('0') => {}
            '0'..='9' => shape.push('0'),
            other => shape.push(other),
        }
    }
    shape
}
