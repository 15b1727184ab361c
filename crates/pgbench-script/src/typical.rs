//! Expressions without chance: the value at one place of every distribution.

use super::evaluate::range;
use super::node::{Case, Draw, Logic, Node};
use super::number::{Number, Outcome};
use super::rng::Rng;
use super::vars::Vars;

impl Node {
    /// The value where nothing is drawn: of uniform and gaussian ranges the integer at the part
    /// `place` (0 … 1), of the others the value that is drawn most often. Nothing is printed.
    pub fn typical(&self, vars: &Vars, place: f64) -> Outcome<Number> {
        let value = |node: &Node| node.typical(vars, place);
        let constant = |node: &Node| value(node).map(Node::Constant);
        let settled = match self {
            Node::Constant(value) => return Ok(*value),
            Node::Variable(slot) => return vars.number(*slot),
            Node::Uniform { low, last } => return Ok(Number::Int(low.wrapping_add(part(*last, place)))),
            Node::Random(limits) => return draw(value(&limits[0])?, value(&limits[1])?, Some(place)),
            Node::Draw(kind, arguments) => {
                let place = matches!(kind, Draw::Gaussian).then_some(place);
                return draw(value(&arguments[0])?, value(&arguments[1])?, place);
            }
            Node::SysbenchZipf(zipf) => {
                return draw(value(&zipf.arguments[0])?, value(&zipf.arguments[1])?, None);
            }
            Node::Debug(debug) => return value(&debug.argument),
            Node::Case(case) => return typical_case(case, vars, place),
            Node::Unary(operator, operand) => Node::Unary(*operator, Box::new(constant(operand)?)),
            Node::Binary(operator, operands) => {
                Node::Binary(*operator, Box::new([constant(&operands[0])?, constant(&operands[1])?]))
            }
            Node::Logic(operator, operands) => {
                let first = value(&operands[0])?;
                // The second operand may have no value where it does not count.
                let open = first != Number::Null && first.truth() != (*operator == Logic::Or);
                let second = if open { value(&operands[1])? } else { Number::Null };
                Node::Logic(*operator, Box::new([Node::Constant(first), Node::Constant(second)]))
            }
            Node::Extreme(which, arguments) => {
                Node::Extreme(*which, arguments.iter().map(constant).collect::<Outcome<_>>()?)
            }
            Node::Permute(arguments) => {
                let [a, b, c] = &**arguments;
                Node::Permute(Box::new([constant(a)?, constant(b)?, constant(c)?]))
            }
        };
        settled.run(vars, &mut Rng::new(0))
    }
}

fn typical_case(case: &Case, vars: &Vars, place: f64) -> Outcome<Number> {
    for (condition, value) in &case.branches {
        if condition.typical(vars, place)?.truth() {
            return value.typical(vars, place);
        }
    }
    case.otherwise.typical(vars, place)
}

/// The integer at `place` of a range, or its first.
fn draw(low: Number, high: Number, place: Option<f64>) -> Outcome<Number> {
    if low == Number::Null || high == Number::Null {
        return Ok(Number::Null);
    }
    let (low, high) = range(low, high)?;
    Ok(Number::Int(low + place.map_or(0, |place| part((high - low) as u64, place))))
}

fn part(last: u64, place: f64) -> i64 {
    // The nearest double of a large limit may lie above it.
    ((last as f64 * place) as u64).min(last) as i64
}
