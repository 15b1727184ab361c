//! Expressions: what is computed by `\set`, `\if` and the parts of a spec.

use std::sync::Arc;

use super::error::{EvalError, Fault, ScriptError};
use super::lexer::Lexer;
use super::node::Node;
use super::number::{Number, Outcome};
use super::parser::Parser;
use super::rng::Rng;
use super::source::{SyntaxError, locate};
use super::value::{Value, ValueRef};
use super::vars::{Names, Vars};

/// A compiled expression. Evaluating one allocates nothing, unless it fails or holds `debug()`.
#[derive(Debug)]
pub struct Expr {
    pub(super) root: Node,
    /// The variables that are read, with their names for messages.
    variables: Box<[(u32, Box<str>)]>,
    /// The meta-command in a script that the expression belongs to, for messages.
    origin: Option<Origin>,
}

/// Where in a script an expression stands.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub file: Arc<str>,
    pub line: usize,
    /// The line.
    pub text: Box<str>,
    /// The number of the command, as pgbench counts them.
    pub command: usize,
}

impl Expr {
    /// Compiles an expression that stands alone; lines do not matter in it.
    pub fn parse(text: &str, names: &mut Names) -> Result<Expr, ScriptError> {
        if let Some(offset) = text.find('\0') {
            let message = "a NUL character cannot be part of an expression".into();
            return Err(locate("", text, SyntaxError { offset, message }));
        }
        Expr::parse_at(&mut Lexer::new(text, 0, false), names, None).map_err(|wrong| locate("", text, wrong))
    }

    /// Compiles what the lexer has until its end.
    pub(super) fn parse_at(
        lexer: &mut Lexer<'_>,
        names: &mut Names,
        origin: Option<Origin>,
    ) -> Result<Expr, SyntaxError> {
        let place = origin.as_ref().map_or_else(
            || "expression".to_owned(),
            |origin| format!("script={},command={}", origin.file, origin.command),
        );
        let mut parser = Parser::new(lexer, names, &place)?;
        let root = parser.parse()?;
        let mut slots = parser.variables;
        slots.sort_unstable();
        slots.dedup();
        let variables = slots.into_iter().map(|slot| (slot, names.name(slot).into())).collect();
        Ok(Expr { root, variables, origin })
    }

    /// The value of the expression.
    #[inline]
    pub fn eval(&self, vars: &mut Vars, rng: &mut Rng) -> Result<Value, EvalError> {
        self.number(vars, rng).map(Value::from)
    }

    /// The value as an integer: doubles are rounded half to even, NULL and booleans are errors.
    #[inline]
    pub fn eval_int(&self, vars: &mut Vars, rng: &mut Rng) -> Result<i64, EvalError> {
        self.explained(self.root.run(vars, rng).and_then(Number::to_int))
    }

    /// The value as a condition: numbers other than zero and TRUE are true, NULL is false.
    #[inline]
    pub fn eval_truth(&self, vars: &mut Vars, rng: &mut Rng) -> Result<bool, EvalError> {
        self.number(vars, rng).map(Number::truth)
    }

    /// The value where nothing is drawn, for statements that are shown or explained and not executed:
    /// of `random` and `random_gaussian` the integer at the part `place` (0 … 1) of the range, of the
    /// other distributions the value that is drawn most often.
    pub fn typical(&self, vars: &Vars, place: f64) -> Result<Value, EvalError> {
        self.explained(self.root.typical(vars, place)).map(Value::from)
    }

    /// The text of a variable, if the expression is nothing but a variable that holds text.
    /// Evaluation would read it as a number.
    pub fn text<'v>(&self, vars: &'v Vars) -> Option<&'v str> {
        match self.root {
            Node::Variable(slot) => match vars.read(slot) {
                Some(ValueRef::Text(text)) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// Lowest value and width of the range, if the expression is `random` of constant limits.
    pub fn uniform(&self) -> Option<(i64, u64)> {
        match self.root {
            Node::Uniform { low, last } => Some((low, last)),
            _ => None,
        }
    }

    #[inline]
    fn number(&self, vars: &Vars, rng: &mut Rng) -> Result<Number, EvalError> {
        self.explained(self.root.run(vars, rng))
    }

    #[inline]
    fn explained<T>(&self, outcome: Outcome<T>) -> Result<T, EvalError> {
        outcome.map_err(|fault| self.explain(&fault))
    }

    #[cold]
    fn explain(&self, fault: &Fault) -> EvalError {
        let name = |slot: u32| {
            let known = self.variables.iter().find(|(variable, _)| *variable == slot);
            known.map_or(String::new(), |(_, name)| name.to_string())
        };
        let message = fault.message(name);
        EvalError {
            message: match &self.origin {
                Some(Origin { file, line, text, .. }) => format!("{file}:{line}: {message}\n    {text}"),
                None => message,
            },
        }
    }
}
