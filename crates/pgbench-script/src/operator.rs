//! Operators and how closely they bind.
//!
//! From the lowest: OR; AND; NOT; IS, ISNULL and NOTNULL; comparisons, of which two in a row are an
//! error; `|` `#` `&` `<<` `>>` `~`; `+` `-`; `*` `/` `%`; sign. Operators of one rank group from the left.

use super::lexer::Token;
use super::node::{Binary, Logic};

const OR: u8 = 1;
const AND: u8 = 2;
pub(super) const NOT: u8 = 3;
pub(super) const IS: u8 = 4;
pub(super) const COMPARISON: u8 = 5;
pub(super) const BITS: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
pub(super) const SIGN: u8 = 9;

/// An operator between two expressions.
#[derive(Clone, Copy)]
pub(super) enum Infix {
    Plain(Binary),
    Swapped(Binary),
    Logic(Logic),
}

/// Rank and meaning of an operator between two expressions.
pub(super) fn infix(token: Token<'_>) -> Option<(u8, Infix)> {
    use Infix::{Plain, Swapped};
    Some(match token {
        Token::Word("or") => (OR, Infix::Logic(Logic::Or)),
        Token::Word("and") => (AND, Infix::Logic(Logic::And)),
        Token::Symbol(symbol) => match symbol {
            "=" => (COMPARISON, Plain(Binary::Equal)),
            "<>" | "!=" => (COMPARISON, Plain(Binary::NotEqual)),
            "<" => (COMPARISON, Plain(Binary::Less)),
            "<=" => (COMPARISON, Plain(Binary::LessOrEqual)),
            ">" => (COMPARISON, Swapped(Binary::Less)),
            ">=" => (COMPARISON, Swapped(Binary::LessOrEqual)),
            "|" => (BITS, Plain(Binary::BitOr)),
            "#" => (BITS, Plain(Binary::BitXor)),
            "&" => (BITS, Plain(Binary::BitAnd)),
            "<<" => (BITS, Plain(Binary::ShiftLeft)),
            ">>" => (BITS, Plain(Binary::ShiftRight)),
            "+" => (SUM, Plain(Binary::Add)),
            "-" => (SUM, Plain(Binary::Subtract)),
            "*" => (PRODUCT, Plain(Binary::Multiply)),
            "/" => (PRODUCT, Plain(Binary::Divide)),
            "%" => (PRODUCT, Plain(Binary::Modulo)),
            _ => return None,
        },
        _ => return None,
    })
}
