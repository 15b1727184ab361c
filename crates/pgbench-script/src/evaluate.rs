//! The evaluation of compiled expressions.

use super::distribution;
use super::error::Fault;
use super::hash;
use super::kind::Kind;
use super::node::{Binary, Draw, Extreme, Logic, Node, SysbenchZipf, Unary};
use super::number::{Number, Outcome};
use super::rng::Rng;
use super::value::Value;
use super::vars::Vars;
use super::zipf::Zipf;

impl Node {
    /// The value of the expression.
    ///
    /// Only what nearly every script does is in this function; the rest is kept out of it, since
    /// its registers and stack would be paid for by every addition.
    pub fn run(&self, vars: &Vars, rng: &mut Rng) -> Outcome<Number> {
        match self {
            Node::Constant(value) => Ok(*value),
            Node::Variable(slot) => vars.number(*slot),
            Node::Uniform { low, last } => Ok(Number::Int(low.wrapping_add(rng.below(*last) as i64))),
            Node::Binary(operator, operands) => {
                let left = operands[0].operand(vars, rng)?;
                let right = operands[1].operand(vars, rng)?;
                match (operator, left, right) {
                    (Binary::Add, Number::Int(a), Number::Int(b)) => checked(a.checked_add(b), "add"),
                    (Binary::Subtract, Number::Int(a), Number::Int(b)) => checked(a.checked_sub(b), "sub"),
                    (Binary::Multiply, Number::Int(a), Number::Int(b)) => checked(a.checked_mul(b), "mul"),
                    _ => binary(*operator, left, right),
                }
            }
            Node::Random(limits) => {
                let low = limits[0].operand(vars, rng)?;
                let high = limits[1].operand(vars, rng)?;
                match (low, high) {
                    (Number::Null, _) | (_, Number::Null) => Ok(Number::Null),
                    (low, high) => {
                        let (low, high) = range(low, high)?;
                        Ok(Number::Int(rng.uniform(low, high)))
                    }
                }
            }
            _ => self.run_rare(vars, rng),
        }
    }

    /// The value of an operand, without a call if it is a constant or a variable.
    #[inline(always)]
    fn operand(&self, vars: &Vars, rng: &mut Rng) -> Outcome<Number> {
        match self {
            Node::Constant(value) => Ok(*value),
            Node::Variable(slot) => vars.number(*slot),
            _ => self.run(vars, rng),
        }
    }

    #[inline(never)]
    fn run_rare(&self, vars: &Vars, rng: &mut Rng) -> Outcome<Number> {
        match self {
            Node::Unary(operator, operand) => unary(*operator, operand.operand(vars, rng)?),
            Node::Logic(operator, operands) => logic(*operator, operands, vars, rng),
            Node::Case(case) => {
                for (condition, value) in &case.branches {
                    if condition.run(vars, rng)?.truth() {
                        return value.run(vars, rng);
                    }
                }
                case.otherwise.run(vars, rng)
            }
            Node::Extreme(which, arguments) => extreme(*which, arguments, vars, rng),
            Node::Draw(draw, arguments) => match all(arguments, vars, rng)? {
                Some(values) => draw.run(values, rng),
                None => Ok(Number::Null),
            },
            Node::SysbenchZipf(zipf) => zipf.run(vars, rng),
            Node::Permute(arguments) => match all(arguments, vars, rng)? {
                Some([value, size, seed]) => {
                    let (value, size, seed) = (value.to_int()?, size.to_int()?, seed.to_int()?);
                    if size <= 0 {
                        return Err(Box::new(Fault::PermuteSize));
                    }
                    Ok(Number::Int(hash::permute(value, size, seed)))
                }
                None => Ok(Number::Null),
            },
            Node::Debug(debug) => {
                let value = debug.argument.run(vars, rng)?;
                print_debug(&debug.place, value);
                Ok(value)
            }
            // The others are in `run`.
            _ => self.run(vars, rng),
        }
    }
}

/// The values of three arguments; None if any is NULL.
#[inline(never)]
fn all(arguments: &[Node; 3], vars: &Vars, rng: &mut Rng) -> Outcome<Option<[Number; 3]>> {
    let mut values = [Number::Null; 3];
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = argument.run(vars, rng)?;
    }
    Ok(if values.contains(&Number::Null) { None } else { Some(values) })
}

/// Two limits that include at least one and at most 2⁶³ − 1 integers.
#[inline]
pub(super) fn range(low: Number, high: Number) -> Outcome<(i64, i64)> {
    let (low, high) = (low.to_int()?, high.to_int()?);
    match high.checked_sub(low) {
        Some(span) if (0..i64::MAX).contains(&span) => Ok((low, high)),
        _ => wrong_range(low, high),
    }
}

#[cold]
#[inline(never)]
fn wrong_range(low: i64, high: i64) -> Outcome<(i64, i64)> {
    Err(Box::new(if low > high { Fault::EmptyRange } else { Fault::RangeTooLarge }))
}

#[inline(never)]
fn binary(operator: Binary, left: Number, right: Number) -> Outcome<Number> {
    use Number::{Double, Int, Null};
    match (left, right) {
        (Int(left), Int(right)) => integers(operator, left, right),
        (Null, _) | (_, Null) => Ok(Null),
        (Double(_), _) | (_, Double(_)) if operator.has_doubles() => {
            doubles(operator, left.to_double()?, right.to_double()?)
        }
        _ => integers(operator, left.to_int_for(operator)?, right.to_int_for(operator)?),
    }
}

impl Number {
    /// `pow` turns both its arguments into doubles, so a boolean is no double to it; to all other
    /// operators it is no integer.
    fn to_int_for(self, operator: Binary) -> Outcome<i64> {
        if operator == Binary::Power && !matches!(self, Number::Int(_)) {
            return Err(Box::new(Fault::Coerce(self.kind(), Kind::Double)));
        }
        self.to_int()
    }
}

impl Binary {
    /// Whether the operator computes with doubles as soon as one operand is a double. The others
    /// round doubles to integers.
    fn has_doubles(self) -> bool {
        use Binary::{Add, Divide, Equal, Less, LessOrEqual, Multiply, NotEqual, Power, Subtract};
        matches!(self, Add | Subtract | Multiply | Divide | Equal | NotEqual | Less | LessOrEqual | Power)
    }
}

/// The result of an operation, or that it is out of range.
#[inline(always)]
fn checked(result: Option<i64>, operation: &'static str) -> Outcome<Number> {
    match result {
        Some(value) => Ok(Number::Int(value)),
        None => out_of_range(operation),
    }
}

#[cold]
#[inline(never)]
fn out_of_range(operation: &'static str) -> Outcome<Number> {
    Err(Box::new(Fault::OutOfRange(operation)))
}

fn integers(operator: Binary, left: i64, right: i64) -> Outcome<Number> {
    match operator {
        Binary::Add => checked(left.checked_add(right), "add"),
        Binary::Subtract => checked(left.checked_sub(right), "sub"),
        Binary::Multiply => checked(left.checked_mul(right), "mul"),
        Binary::Divide | Binary::Modulo if right == 0 => Err(Box::new(Fault::DivisionByZero)),
        Binary::Divide => checked(left.checked_div(right), "div"),
        // The remainder by −1 is 0 even where the quotient is out of range.
        Binary::Modulo => Ok(Number::Int(left.wrapping_rem(right))),
        Binary::Equal => Ok(Number::Bool(left == right)),
        Binary::NotEqual => Ok(Number::Bool(left != right)),
        Binary::Less => Ok(Number::Bool(left < right)),
        Binary::LessOrEqual => Ok(Number::Bool(left <= right)),
        Binary::BitAnd => Ok(Number::Int(left & right)),
        Binary::BitOr => Ok(Number::Int(left | right)),
        Binary::BitXor => Ok(Number::Int(left ^ right)),
        // Of the distance the lowest six bits count, as on the processors PostgreSQL runs on.
        Binary::ShiftLeft => Ok(Number::Int(left.wrapping_shl(right as u32))),
        Binary::ShiftRight => Ok(Number::Int(left.wrapping_shr(right as u32))),
        Binary::Power => Ok(Number::Double((left as f64).powf(right as f64))),
        Binary::HashFnv1a => Ok(Number::Int(hash::fnv1a(left, right))),
        Binary::HashMurmur2 => Ok(Number::Int(hash::murmur2(left, right))),
    }
}

fn doubles(operator: Binary, left: f64, right: f64) -> Outcome<Number> {
    Ok(match operator {
        Binary::Add => Number::Double(left + right),
        Binary::Subtract => Number::Double(left - right),
        Binary::Multiply => Number::Double(left * right),
        Binary::Divide => Number::Double(left / right),
        Binary::Equal => Number::Bool(left == right),
        Binary::NotEqual => Number::Bool(left != right),
        Binary::Less => Number::Bool(left < right),
        Binary::LessOrEqual => Number::Bool(left <= right),
        Binary::Power => Number::Double(left.powf(right)),
        other => return integers(other, Number::Double(left).to_int()?, Number::Double(right).to_int()?),
    })
}

fn unary(operator: Unary, value: Number) -> Outcome<Number> {
    match (operator, value) {
        (Unary::Is(what), value) => return Ok(Number::Bool(value == what)),
        (Unary::IsNot(what), value) => return Ok(Number::Bool(value != what)),
        (_, Number::Null) => return Ok(Number::Null),
        (Unary::Not, value) => return Ok(Number::Bool(!value.truth())),
        (Unary::Int, value) => return value.to_int().map(Number::Int),
        // The smallest integer has no opposite; it stays what it is.
        (Unary::Abs, Number::Int(value)) => return Ok(Number::Int(value.wrapping_abs())),
        _ => {}
    }
    let value = value.to_double()?;
    Ok(Number::Double(match operator {
        Unary::Abs => value.abs(),
        Unary::Exp => value.exp(),
        Unary::Ln => value.ln(),
        Unary::Sqrt => value.sqrt(),
        _ => value,
    }))
}

/// AND and OR look at the second operand only if the first leaves the answer open; NULL first makes
/// the whole NULL.
#[inline(never)]
fn logic(operator: Logic, operands: &[Node; 2], vars: &Vars, rng: &mut Rng) -> Outcome<Number> {
    let decides = operator == Logic::Or;
    match operands[0].run(vars, rng)? {
        Number::Null => return Ok(Number::Null),
        first if first.truth() == decides => return Ok(Number::Bool(decides)),
        _ => {}
    }
    Ok(match operands[1].run(vars, rng)? {
        Number::Null => Number::Null,
        second => Number::Bool(second.truth()),
    })
}

/// All arguments are evaluated even behind a NULL, so that the random numbers drawn are the same.
#[inline(never)]
fn extreme(which: Extreme, arguments: &[Node], vars: &Vars, rng: &mut Rng) -> Outcome<Number> {
    let mut values = [Number::Null; 16];
    let values = &mut values[..arguments.len()];
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = argument.run(vars, rng)?;
    }
    if values.contains(&Number::Null) {
        return Ok(Number::Null);
    }
    if values.iter().any(|value| matches!(value, Number::Double(_))) {
        let mut best = values[0].to_double()?;
        for value in &values[1..] {
            let value = value.to_double()?;
            let better = if which == Extreme::Least { best < value } else { best > value };
            best = if better { best } else { value };
        }
        return Ok(Number::Double(best));
    }
    let mut best = values[0].to_int()?;
    for value in &values[1..] {
        let value = value.to_int()?;
        best = if which == Extreme::Least { best.min(value) } else { best.max(value) };
    }
    Ok(Number::Int(best))
}

impl Draw {
    fn run(self, [low, high, parameter]: [Number; 3], rng: &mut Rng) -> Outcome<Number> {
        let (low, high) = range(low, high)?;
        let parameter = parameter.to_double()?;
        let value = match self {
            Draw::Exponential if parameter <= 0.0 || parameter.is_nan() => {
                return Err(Box::new(Fault::Exponential(parameter)));
            }
            Draw::Exponential => distribution::exponential(rng, low, high, parameter),
            Draw::Gaussian if parameter < distribution::GAUSSIAN_MIN || parameter.is_nan() => {
                return Err(Box::new(Fault::Gaussian(parameter)));
            }
            Draw::Gaussian => distribution::gaussian(rng, low, high, parameter),
            Draw::Zipfian
                if !(distribution::ZIPFIAN_MIN..=distribution::ZIPFIAN_MAX).contains(&parameter) =>
            {
                return Err(Box::new(Fault::Zipfian(parameter)));
            }
            Draw::Zipfian => distribution::zipfian(rng, low, high, parameter),
        };
        Ok(Number::Int(value))
    }
}

impl SysbenchZipf {
    fn run(&self, vars: &Vars, rng: &mut Rng) -> Outcome<Number> {
        let Some([low, high, exponent]) = all(&self.arguments, vars, rng)? else {
            return Ok(Number::Null);
        };
        let (low, high) = range(low, high)?;
        let exponent = exponent.to_double()?;
        if !(exponent > 0.0 && exponent.is_finite()) {
            return Err(Box::new(Fault::SysbenchZipf(exponent)));
        }
        let count = (high - low) as u64 + 1;
        let first = self.constants.get_or_init(|| Zipf::new(count, exponent));
        let value = if first.count == count && first.exponent == exponent {
            first.sample(rng)
        } else {
            Zipf::new(count, exponent).sample(rng)
        };
        Ok(Number::Int(low + (value - 1) as i64))
    }
}

/// What `debug()` is for: a line on standard error.
#[inline(never)]
fn print_debug(place: &str, value: Number) {
    let mut text = Vec::new();
    Value::from(value).write_text(&mut text);
    let text = String::from_utf8_lossy(&text);
    match value.kind() {
        Kind::Null => eprintln!("debug({place}): null"),
        kind => eprintln!("debug({place}): {kind} {text}"),
    }
}
