//! The tree an expression is compiled to.

use std::sync::OnceLock;

use super::number::Number;
use super::zipf::Zipf;

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Number),
    Variable(u32),
    /// `random` of constant limits: `low` plus 0 … `last`.
    Uniform {
        low: i64,
        last: u64,
    },
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<[Node; 2]>),
    Logic(Logic, Box<[Node; 2]>),
    Case(Box<Case>),
    Extreme(Extreme, Box<[Node]>),
    Random(Box<[Node; 2]>),
    Draw(Draw, Box<[Node; 3]>),
    SysbenchZipf(Box<SysbenchZipf>),
    Permute(Box<[Node; 3]>),
    Debug(Box<DebugCall>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unary {
    Not,
    Abs,
    Int,
    Double,
    Exp,
    Ln,
    Sqrt,
    /// `IS` NULL, TRUE or FALSE.
    Is(Number),
    IsNot(Number),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Power,
    HashFnv1a,
    HashMurmur2,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Logic {
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extreme {
    Least,
    Greatest,
}

/// Distributions with one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Draw {
    Exponential,
    Gaussian,
    Zipfian,
}

#[derive(Debug)]
pub(super) struct Case {
    pub branches: Box<[(Node, Node)]>,
    pub otherwise: Node,
}

#[derive(Debug)]
pub(super) struct SysbenchZipf {
    pub arguments: [Node; 3],
    /// The constants for the range and exponent that came first, which are those of all calls
    /// unless they depend on variables that change.
    pub constants: OnceLock<Zipf>,
}

#[derive(Debug)]
pub(super) struct DebugCall {
    pub argument: Node,
    /// What is printed in parentheses before the value.
    pub place: Box<str>,
}
