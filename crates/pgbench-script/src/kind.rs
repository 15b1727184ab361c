//! The types that expressions know, by name.

use std::fmt;

/// The type of a [`Number`](super::number::Number).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Int,
    Double,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Int => "int",
            Kind::Double => "double",
        })
    }
}
