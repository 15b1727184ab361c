//! The pgbench script language: what `\set`, `\if`, `:name` and the rest mean.
//!
//! A script is compiled once into [`Script`], a flat list of [`Command`]s in which `\if` has become
//! jumps and every variable a slot number. Nothing here does I/O but the function `debug()`, which
//! writes to standard error because that is what it is for.
//!
//! ```
//! use pgbench_script::{Command, Names, Rng, SqlPart, Value, Vars, parse_script};
//!
//! let mut names = Names::new();
//! let text = "\\set id random(1, 10) + 100\nSELECT name FROM people WHERE id = :id;";
//! let script = parse_script(text, "people.sql", &mut names, false)?;
//!
//! // Each connection has variables and a stream of random numbers of its own.
//! let (mut vars, mut rng) = (Vars::new(&names), Rng::new(42));
//! let Command::Set { slot, expr } = &script.commands[0] else { unreachable!() };
//! let id = expr.eval(&mut vars, &mut rng)?;
//! assert!(matches!(id, Value::Int(101..=110)));
//! vars.set(*slot, id);
//! let Command::Sql { text, .. } = &script.commands[1] else { unreachable!() };
//! assert_eq!(text.parts[1], SqlPart::Var(*slot));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The authority is the documentation of pgbench in the newest PostgreSQL release
//! (<https://www.postgresql.org/docs/current/pgbench.html>); what this module does where the
//! documentation is silent was checked against a running pgbench. `docs/reference/pgbench-scripts.md` lists
//! the differences.

mod command;
mod compile;
mod distribution;
mod error;
mod evaluate;
mod expr;
mod function;
mod hash;
mod kind;
mod lexer;
mod nearest;
mod node;
mod number;
mod operator;
mod parser;
mod rng;
mod scanner;
mod source;
mod sql;
mod typical;
mod value;
mod vars;
mod zipf;

#[cfg(test)]
mod tests;

pub use command::{Command, Script, ShellWord, Sleep, SleepTime, Store, TimeUnit};
pub use compile::parse_script;
pub use error::{EvalError, ScriptError};
pub use expr::Expr;
pub use rng::Rng;
pub use scanner::split_sql;
pub use source::decode;
pub use sql::{SqlPart, SqlText};
pub use value::{Value, ValueRef, write_int};
pub use vars::{Names, Vars};
