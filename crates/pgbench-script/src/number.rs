//! The values that expressions compute with, and how they turn into each other.

use super::error::Fault;
use super::kind::Kind;

/// A value inside an expression: pgbench's four types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
}

pub(super) type Outcome<T> = Result<T, Box<Fault>>;

impl Number {
    pub fn kind(self) -> Kind {
        match self {
            Number::Null => Kind::Null,
            Number::Bool(_) => Kind::Boolean,
            Number::Int(_) => Kind::Int,
            Number::Double(_) => Kind::Double,
        }
    }

    /// As an integer: doubles are rounded half to even; a boolean or NULL is none.
    #[inline]
    pub fn to_int(self) -> Outcome<i64> {
        match self {
            Number::Int(value) => Ok(value),
            other => other.other_to_int(),
        }
    }

    #[inline(never)]
    fn other_to_int(self) -> Outcome<i64> {
        match self {
            Number::Double(value) => double_to_int(value),
            other => Err(Box::new(Fault::Coerce(other.kind(), Kind::Int))),
        }
    }

    /// As a double; a boolean or NULL is none.
    #[inline]
    pub fn to_double(self) -> Outcome<f64> {
        match self {
            Number::Double(value) => Ok(value),
            Number::Int(value) => Ok(value as f64),
            other => Err(Box::new(Fault::Coerce(other.kind(), Kind::Double))),
        }
    }

    /// True for conditions: numbers other than zero, and TRUE; NULL is false.
    #[inline]
    pub fn truth(self) -> bool {
        match self {
            Number::Null => false,
            Number::Bool(value) => value,
            Number::Int(value) => value != 0,
            Number::Double(value) => value != 0.0,
        }
    }
}

/// The nearest integer, ties to even, if a bigint can hold it.
fn double_to_int(value: f64) -> Outcome<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let rounded = value.round_ties_even();
    if (-LIMIT..LIMIT).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(Box::new(Fault::DoubleToInt(rounded)))
    }
}
