//! What can go wrong while a script is read and while an expression is evaluated.

use std::fmt;

use super::kind::Kind;

/// A script or an expression that cannot be understood, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptError {
    /// Name of the script; empty for an expression that comes from no file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// Column in the line, in characters, from 1.
    pub column: usize,
    /// What is wrong, and what to do about it if that is known.
    pub message: String,
    /// The line at fault, without its end; a long line is cut around the column.
    pub source_line: String,
    /// How many characters of the line stand before the caret in `source_line`.
    pub caret: usize,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file.is_empty() { "expression" } else { &self.file };
        writeln!(f, "{file}:{}:{}: {}", self.line, self.column, self.message)?;
        writeln!(f, "    {}", self.source_line)?;
        write!(f, "    {:width$}^", "", width = self.caret)
    }
}

impl std::error::Error for ScriptError {}

/// An expression that has no value.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalError {
    /// Why, in pgbench's words; for an expression of a script with its file, line and text.
    pub message: String,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}

/// The reason of an [`EvalError`] before names are put to slots.
///
/// Kept apart from the message so that the result of every evaluation step stays two words long.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    OutOfRange(&'static str),
    DivisionByZero,
    Undefined(u32),
    Text(u32, TextFault),
    Coerce(Kind, Kind),
    DoubleToInt(f64),
    EmptyRange,
    RangeTooLarge,
    Gaussian(f64),
    Exponential(f64),
    Zipfian(f64),
    SysbenchZipf(f64),
    PermuteSize,
}

/// Why the text of a variable is no value an expression can use.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextFault {
    Empty,
    OutOfRange(Box<str>),
    Malformed(Box<str>),
}

impl Fault {
    /// The message; `name` gives the name of a slot.
    pub fn message(&self, name: impl Fn(u32) -> String) -> String {
        match self {
            Fault::OutOfRange(operation) => format!("bigint {operation} out of range"),
            Fault::DivisionByZero => "division by zero".into(),
            Fault::Undefined(slot) => format!("undefined variable \"{}\"", name(*slot)),
            Fault::Text(slot, TextFault::Empty) => format!("variable \"{}\" is empty", name(*slot)),
            Fault::Text(slot, TextFault::OutOfRange(text)) => {
                format!("value \"{text}\" of variable \"{}\" is out of range for type bigint", name(*slot))
            }
            Fault::Text(slot, TextFault::Malformed(text)) => {
                format!("malformed variable \"{}\" value: \"{text}\"", name(*slot))
            }
            Fault::Coerce(from, to) => format!("cannot coerce {from} to {to}"),
            Fault::DoubleToInt(value) => format!("double to int overflow for {value:.6}"),
            Fault::EmptyRange => "empty range given to random".into(),
            Fault::RangeTooLarge => "random range is too large".into(),
            Fault::Gaussian(value) => {
                format!("gaussian parameter must be at least 2.000000 (not {value:.6})")
            }
            Fault::Exponential(value) => {
                format!("exponential parameter must be greater than zero (not {value:.6})")
            }
            Fault::Zipfian(value) => {
                format!("zipfian parameter must be in range [1.001, 1000] (not {value:.6})")
            }
            Fault::SysbenchZipf(value) => {
                format!("sysbench_zipf exponent must be greater than zero (not {value:.6})")
            }
            Fault::PermuteSize => "permute size parameter must be greater than zero".into(),
        }
    }
}
