//! From the spec's roles to programs: names become slots, nested ops become flat code.

use crate::clock;
use crate::events::{Failure, FailureKind};
use crate::generate::Piece;
use crate::program::{CopySource, CopyStatement, Destination, Op, Program, Role, Source, Splice, Statement};
use crate::spec::{
    Constant, Mode, OnError, OpSpec, PieceSpec, Pipeline, Prepare, RoleSpec, ScriptSpec, SleepSpec, SqlSpec,
    Unit,
};
use crate::wire;
use pgbench_script::{
    self, Command, Expr, Names, ScriptError, Sleep, SleepTime, SqlPart, SqlText, Store, TimeUnit, Value,
};

/// Compiles one role.
///
/// # Errors
/// `spec` where the role asks for what cannot be, `script` where a pgbench script does not parse.
pub fn role(spec: RoleSpec, index: usize, shared: &[String]) -> Result<Role, Failure> {
    let mut names = Names::new();
    let client_slot = names.slot("client");
    let client_id_slot = names.slot("client_id");
    let row_slot = names.slot("row");
    let shared = shared.iter().map(|name| names.slot(name)).collect();
    let mut initial = Vec::new();
    for (name, value) in &spec.variables {
        initial.push((names.slot(name), variable(value)));
    }
    if spec.clients == 0 {
        return Err(Failure::spec(format!("role {} has no clients", spec.name)));
    }
    if spec.rate.is_some_and(|r| !(r.per_client > 0.0 && r.per_client.is_finite())) {
        return Err(Failure::spec(format!("the rate of role {} is not above 0", spec.name)));
    }
    if spec.latency_limit_seconds.is_some_and(|limit| !(limit > 0.0 && limit.is_finite())) {
        return Err(Failure::spec(format!("the latency limit of role {} is not above 0", spec.name)));
    }
    if spec.reconnect && (spec.prepare == Prepare::Eager || !spec.start.is_empty()) {
        return Err(Failure::spec(format!(
            "role {} has a connection for each transaction: nothing can be prepared or done before",
            spec.name
        )));
    }
    let mut compiler = Compiler {
        role: spec.name.clone(),
        mode: spec.mode,
        declare: spec.declare_types,
        binary_results: spec.binary_results,
        allow_shell: spec.allow_shell,
        names,
        row_slot,
        statements: Vec::new(),
        copies: Vec::new(),
        counters: 0,
    };
    let start = compiler.block(spec.start)?;
    let mut programs = Vec::new();
    let mut weights = Vec::new();
    let mut scripts = Vec::new();
    let mut total = 0;
    for script in spec.scripts {
        let (weight, name) = match &script {
            ScriptSpec::Ops(script) => (script.weight, script.name.clone()),
            ScriptSpec::Text(script) => (script.weight, script.name.clone()),
        };
        if weight == 0 {
            continue;
        }
        total += weight;
        weights.push(total);
        let before = compiler.statements.len();
        programs.push(compiler.script(script)?);
        scripts.push((name, compiler.statements.len() - before));
    }
    if programs.is_empty() {
        return Err(Failure::spec(format!("role {} has no script", spec.name)));
    }
    Ok(Role {
        name: spec.name,
        index,
        clients: spec.clients,
        counts: spec.counts,
        operations: spec.operations,
        rate: spec.rate,
        retry: spec.retry,
        latency_limit: spec.latency_limit_seconds.map(clock::nanos),
        reconnect: spec.reconnect,
        prepare: spec.prepare,
        start,
        programs,
        weights,
        scripts,
        statements: compiler.statements,
        copies: compiler.copies,
        counters: compiler.counters,
        names: compiler.names,
        initial,
        client_slot,
        client_id_slot,
        shared,
    })
}

fn variable(constant: &Constant) -> Value {
    match constant {
        Constant::Null => Value::Null,
        Constant::Bool(value) => Value::Bool(*value),
        Constant::Int(value) => Value::Int(*value),
        Constant::Double(value) => Value::Double(*value),
        Constant::Text(text) => Value::from_text(text),
    }
}

struct Compiler {
    role: String,
    mode: Mode,
    declare: bool,
    binary_results: bool,
    allow_shell: bool,
    names: Names,
    row_slot: u32,
    statements: Vec<Statement>,
    copies: Vec<CopyStatement>,
    counters: usize,
}

pub fn script_failure(e: ScriptError) -> Failure {
    Failure {
        file: Some(e.file.clone()),
        line: Some(e.line),
        column: Some(e.column),
        ..Failure::new(FailureKind::Script, e.to_string())
    }
}

impl Compiler {
    fn expr(&mut self, text: &str) -> Result<Expr, Failure> {
        Expr::parse(text, &mut self.names).map_err(|e| {
            Failure::spec(format!("role {}: in the expression {text:?}: {}", self.role, e.message))
        })
    }

    fn script(&mut self, script: ScriptSpec) -> Result<Program, Failure> {
        let script = match script {
            ScriptSpec::Ops(script) => script,
            ScriptSpec::Text(script) => return self.pgbench(&script.text, &script.name),
        };
        let mut code = self.block(script.before)?;
        let body = code.len();
        let rest = self.block(script.ops)?;
        append(&mut code, rest);
        Ok(Program { code, body, source: None })
    }

    fn block(&mut self, ops: Vec<OpSpec>) -> Result<Vec<Op>, Failure> {
        let mut code = Vec::new();
        for op in ops {
            self.op(op, &mut code)?;
        }
        Ok(code)
    }

    fn op(&mut self, op: OpSpec, code: &mut Vec<Op>) -> Result<(), Failure> {
        match op {
            OpSpec::Set(set) => {
                let expr = self.expr(&set.expr)?;
                code.push(Op::Set { slot: self.names.slot(&set.set), expr });
            }
            OpSpec::Sql(sql) => {
                let statement = self.sql(sql)?;
                code.push(Op::Sql(statement));
            }
            OpSpec::CopyRows(copy) => {
                let mut splice = None;
                let source = CopySource::Rows { rows: copy.rows, row: self.pieces(copy.row, &mut splice)? };
                code.push(Op::Copy(self.copy(copy.copy, copy.name, source)?));
            }
            OpSpec::CopyFile(copy) => {
                code.push(Op::Copy(self.copy(copy.copy, copy.name, CopySource::File(copy.file))?));
            }
            OpSpec::Every(every) => {
                let counter = self.counters;
                self.counters += 1;
                let inner = self.block(every.ops)?;
                let skip = code.len() + 1 + inner.len();
                code.push(Op::Every { n: every.every.max(1), first: every.first, counter, skip });
                append(code, inner);
            }
            OpSpec::If(choice) => {
                let mut ends = Vec::new();
                for (condition, ops) in choice.branches {
                    let expr = self.expr(&condition)?;
                    let inner = self.block(ops)?;
                    let target = code.len() + 1 + inner.len() + 1;
                    code.push(Op::JumpUnless { expr, target });
                    append(code, inner);
                    ends.push(code.len());
                    code.push(Op::Jump(0));
                }
                let otherwise = self.block(choice.otherwise)?;
                append(code, otherwise);
                let end = code.len();
                for at in ends {
                    code[at] = Op::Jump(end);
                }
            }
            OpSpec::Sleep(sleep) => {
                code.push(Op::Sleep(self.sleep(&sleep)?));
            }
            OpSpec::Pipeline(op) => code.push(Op::Pipeline(op.pipeline)),
        }
        Ok(())
    }

    /// What to sleep for is a whole number or a variable, as in pgbench.
    fn sleep(&mut self, sleep: &SleepSpec) -> Result<Sleep, Failure> {
        let text = sleep.sleep.trim();
        let time = match (text.strip_prefix(':'), text.parse()) {
            (Some(name), _) if Names::is_valid(name) => {
                SleepTime::Variable { slot: self.names.slot(name), name: name.into() }
            }
            (None, Ok(count)) => SleepTime::Constant(count),
            _ => return Err(Failure::spec(format!("sleep: {text:?} is neither a number nor a variable"))),
        };
        let unit = match sleep.unit {
            Unit::Us => TimeUnit::Microsecond,
            Unit::Ms => TimeUnit::Millisecond,
            Unit::S => TimeUnit::Second,
        };
        Ok(Sleep { time, unit })
    }

    fn pgbench(&mut self, text: &str, file: &str) -> Result<Program, Failure> {
        let script = pgbench_script::parse_script(text, file, &mut self.names, self.allow_shell)
            .map_err(script_failure)?;
        match self.mode {
            Mode::Simple => script.check_simple(text),
            Mode::Extended | Mode::Prepared => script.check_extended(text),
        }
        .map_err(script_failure)?;
        let mut code = Vec::with_capacity(script.commands.len());
        for command in script.commands {
            code.push(match command {
                Command::Set { slot, expr, .. } => Op::Set { slot, expr },
                Command::Sql { text, name, store, .. } => Op::Sql(self.script_sql(text, &name, store)?),
                Command::Sleep { sleep, .. } => Op::Sleep(sleep),
                Command::JumpUnless { condition, target, .. } => Op::JumpUnless { expr: condition, target },
                Command::Jump { target } => Op::Jump(target),
                Command::StartPipeline => Op::Pipeline(Pipeline::Start),
                Command::SyncPipeline => Op::Pipeline(Pipeline::Sync),
                Command::EndPipeline => Op::Pipeline(Pipeline::End),
                Command::Shell { words, .. } => Op::Shell { words, result: None },
                Command::SetShell { slot, words, .. } => Op::Shell { words, result: Some(slot) },
            });
        }
        let source = Source { file: script.file, lines: script.lines };
        Ok(Program { code, body: 0, source: Some(source) })
    }

    fn script_sql(&mut self, text: SqlText, name: &str, store: Option<Store>) -> Result<usize, Failure> {
        let pieces = text.parts.into_iter().map(|piece| match piece {
            SqlPart::Text(text) => Piece::Text(text.into_boxed_bytes()),
            SqlPart::Var(slot) => Piece::Variable(slot, self.names.name(slot).into()),
        });
        let pieces = pieces.collect();
        let destination = match store {
            None => Destination::Nothing,
            Some(Store::Gset { prefix }) => Destination::Gset(prefix.into()),
            Some(Store::Aset { prefix }) => Destination::Aset(prefix.into()),
        };
        self.statement(Statement { destination, ..bare(name.to_owned(), self.mode, pieces, None) })
    }

    fn sql(&mut self, sql: SqlSpec) -> Result<usize, Failure> {
        let destination = match (sql.gset, sql.aset) {
            (Some(prefix), _) => Destination::Gset(prefix),
            (None, Some(prefix)) => Destination::Aset(prefix),
            (None, None) if sql.into.is_empty() => Destination::Nothing,
            (None, None) => Destination::Slots(sql.into.iter().map(|n| self.names.slot(n)).collect()),
        };
        let mut splice = None;
        let pieces = self.pieces(sql.sql, &mut splice)?;
        self.statement(Statement {
            counted: sql.counted,
            destination,
            record: sql.record,
            record_errors: sql.on_error == OnError::Record,
            ..bare(sql.name, sql.mode.unwrap_or(self.mode), pieces, splice)
        })
    }

    fn statement(&mut self, statement: Statement) -> Result<usize, Failure> {
        let index = self.statements.len();
        self.statements.push(statement.finish(index, self.declare, self.binary_results)?);
        Ok(index)
    }

    fn copy(&mut self, text: String, name: String, source: CopySource) -> Result<usize, Failure> {
        let text = vec![Piece::Text(text.into_bytes().into())];
        let statement = self.statement(bare(name, Mode::Simple, text, None))?;
        self.copies.push(CopyStatement { statement, source, row_slot: self.row_slot });
        Ok(self.copies.len() - 1)
    }

    fn pieces(&mut self, pieces: Vec<PieceSpec>, splice: &mut Option<Splice>) -> Result<Vec<Piece>, Failure> {
        let mut compiled = Vec::with_capacity(pieces.len());
        for piece in pieces {
            compiled.push(match piece {
                PieceSpec::Text(text) => Piece::Text(text.into_bytes().into()),
                PieceSpec::Expr(e) => Piece::Expr(self.expr(&e.expr)?, e.kind),
                PieceSpec::Splice(s) => {
                    let expr = self.expr(&s.text)?;
                    let fixed = matches!(s.text.trim(), ":client" | ":client_id");
                    let same = |old: &Splice| old.from == s.from && old.to == s.to;
                    if s.from > s.to || s.to - s.from > 100_000 || splice.as_ref().is_some_and(|o| !same(o)) {
                        return Err(Failure::spec(format!(
                            "role {}: one range of at most 100000 values can be spliced into a statement",
                            self.role
                        )));
                    }
                    *splice = Some(Splice { expr, from: s.from, to: s.to, fixed });
                    Piece::Splice
                }
                PieceSpec::Digits(d) => Piece::Digits(d.digits.into_bytes().into(), d.kind),
                PieceSpec::Fill(f) => {
                    if f.fill.min > f.fill.max || !(0.0..=1.0).contains(&f.fill.random) {
                        return Err(Failure::spec("fill: min is above max, or random not in 0..1"));
                    }
                    Piece::Fill(f.fill)
                }
                PieceSpec::Now(_) => Piece::Now,
                PieceSpec::Repeat(r) => {
                    let of = self.pieces(r.of, splice)?;
                    let separator: Box<[u8]> = r.separator.into_bytes().into();
                    Piece::repeat(r.repeat, of, separator)
                }
            });
        }
        Ok(compiled)
    }
}

fn bare(name: String, mode: Mode, pieces: Vec<Piece>, splice: Option<Splice>) -> Statement {
    Statement {
        name,
        mode,
        pieces,
        splice,
        prepared: Vec::new(),
        types: Box::default(),
        params: 0,
        result_formats: &wire::TEXT_RESULTS,
        counted: true,
        destination: Destination::Nothing,
        record: false,
        record_errors: false,
    }
}

/// Puts `more` behind `code`, moving its jump targets along.
fn append(code: &mut Vec<Op>, more: Vec<Op>) {
    let by = code.len();
    code.extend(more.into_iter().map(|op| match op {
        Op::Jump(target) => Op::Jump(target + by),
        Op::JumpUnless { expr, target } => Op::JumpUnless { expr, target: target + by },
        Op::Every { n, first, counter, skip } => Op::Every { n, first, counter, skip: skip + by },
        other => other,
    }));
}
