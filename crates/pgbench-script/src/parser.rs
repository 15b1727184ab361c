//! Expressions parsed, by the rank of their operators.

use std::sync::OnceLock;

use super::evaluate::range;
use super::function::Function;
use super::lexer::{Lexer, Token};
use super::node::{Binary, Case, DebugCall, Draw, Extreme, Node, SysbenchZipf, Unary};
use super::number::Number;
use super::operator::{BITS, COMPARISON, IS, Infix, NOT, SIGN, infix};
use super::rng::Rng;
use super::source::SyntaxError;
use super::vars::{Names, Vars};

/// How deeply expressions may stand within each other.
const MAX_NESTING: usize = 200;
/// How many evaluations may be under way within each other, which long rows of operators add up to.
const MAX_DEPTH: usize = 1000;

pub(super) struct Parser<'a, 'l, 'n> {
    lexer: &'l mut Lexer<'a>,
    names: &'n mut Names,
    place: &'n str,
    /// The token that is looked at, and where it begins.
    token: Token<'a>,
    at: usize,
    nesting: usize,
    /// Slots of the variables met, with repetitions.
    pub variables: Vec<u32>,
}

/// A node and how deep it is.
struct Operand {
    node: Node,
    depth: usize,
}

impl<'a, 'l, 'n> Parser<'a, 'l, 'n> {
    pub fn new(lexer: &'l mut Lexer<'a>, names: &'n mut Names, place: &'n str) -> Result<Self, SyntaxError> {
        let (at, token) = lexer.next()?;
        Ok(Parser { lexer, names, place, token, at, nesting: 0, variables: Vec::new() })
    }

    /// One expression and then the end.
    pub fn parse(&mut self) -> Result<Node, SyntaxError> {
        if self.token == Token::End {
            return SyntaxError::at(self.at, "an expression is missing");
        }
        let part = self.expression(0)?;
        if self.token != Token::End {
            return self.unexpected("an operator or the end of the line");
        }
        Ok(part.node)
    }

    fn advance(&mut self) -> Result<(), SyntaxError> {
        (self.at, self.token) = self.lexer.next()?;
        Ok(())
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, SyntaxError> {
        let found = match self.token {
            Token::End => "the end of the line".into(),
            Token::Null => "\"null\"".into(),
            Token::Boolean(value) => format!("\"{value}\""),
            Token::Int(value) => format!("\"{value}\""),
            Token::IntLimit => {
                return SyntaxError::at(self.at, "bigint constant overflow (9223372036854775808)");
            }
            Token::Double(value) => format!("\"{value}\""),
            Token::Variable(name) => format!("\":{name}\""),
            Token::Name(name) => format!("\"{name}\""),
            Token::Symbol(text) | Token::Word(text) => format!("\"{text}\""),
        };
        SyntaxError::at(self.at, format!("syntax error: expected {expected}, found {found}"))
    }

    fn expect(&mut self, token: Token<'static>, name: &str) -> Result<(), SyntaxError> {
        if self.token == token { self.advance() } else { self.unexpected(name) }
    }

    /// An expression whose operators rank at least `lowest`.
    fn expression(&mut self, lowest: u8) -> Result<Operand, SyntaxError> {
        if self.nesting >= MAX_NESTING {
            return SyntaxError::at(
                self.at,
                format!("more than {MAX_NESTING} expressions within each other"),
            );
        }
        self.nesting += 1;
        let mut left = self.operand()?;
        let mut compared = false;
        loop {
            let at = self.at;
            if let Token::Word("is" | "isnull" | "notnull") = self.token {
                if lowest > IS {
                    break;
                }
                let operator = self.test()?;
                left = self.unary(at, operator, left)?;
                compared = false;
                continue;
            }
            let Some((rank, operator)) = infix(self.token) else { break };
            if rank < lowest {
                break;
            }
            if rank == COMPARISON && compared {
                return SyntaxError::at(at, "syntax error: a comparison of a comparison needs parentheses");
            }
            self.advance()?;
            let right = self.expression(rank + 1)?;
            compared = rank == COMPARISON;
            left = self.infix(at, operator, left, right)?;
        }
        self.nesting -= 1;
        Ok(left)
    }

    /// What stands behind an expression in `IS …`, ISNULL or NOTNULL.
    fn test(&mut self) -> Result<Unary, SyntaxError> {
        let word = self.token;
        self.advance()?;
        match word {
            Token::Word("isnull") => return Ok(Unary::Is(Number::Null)),
            Token::Word("notnull") => return Ok(Unary::IsNot(Number::Null)),
            _ => {}
        }
        let negated = self.token == Token::Word("not");
        if negated {
            self.advance()?;
        }
        let what = match self.token {
            Token::Null => Number::Null,
            Token::Boolean(value) => Number::Bool(value),
            _ => return self.unexpected("NULL, TRUE or FALSE"),
        };
        self.advance()?;
        Ok(if negated { Unary::IsNot(what) } else { Unary::Is(what) })
    }

    /// A constant, a variable, a call, a CASE, or a sign or NOT with what it belongs to.
    fn operand(&mut self) -> Result<Operand, SyntaxError> {
        let (at, token) = (self.at, self.token);
        if matches!(token, Token::End | Token::IntLimit) {
            return self.unexpected("a value");
        }
        self.advance()?;
        match token {
            Token::Null => Ok(constant(Number::Null)),
            Token::Boolean(value) => Ok(constant(Number::Bool(value))),
            Token::Int(value) => Ok(constant(Number::Int(value))),
            Token::Double(value) => Ok(constant(Number::Double(value))),
            Token::Variable(name) => Ok(self.variable(name)),
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                self.expect(Token::Symbol(")"), "\")\"")?;
                Ok(inner)
            }
            Token::Symbol("+") => self.expression(SIGN),
            // "-x" is "0 - x", also for doubles.
            Token::Symbol("-") if self.token == Token::IntLimit => {
                self.advance()?;
                Ok(constant(Number::Int(i64::MIN)))
            }
            Token::Symbol("-") => {
                let right = self.expression(SIGN)?;
                self.binary(at, Binary::Subtract, constant(Number::Int(0)), right)
            }
            // "~x" is "-1 # x"; it takes everything that binds closer than bit operators.
            Token::Symbol("~") => {
                let right = self.expression(BITS + 1)?;
                self.binary(at, Binary::BitXor, constant(Number::Int(-1)), right)
            }
            Token::Word("not") => {
                let right = self.expression(NOT)?;
                self.unary(at, Unary::Not, right)
            }
            Token::Word("case") => self.case(at),
            Token::Name(name) => self.call(at, name),
            _ => {
                (self.at, self.token) = (at, token);
                self.unexpected("a value")
            }
        }
    }

    fn variable(&mut self, name: &str) -> Operand {
        let slot = self.names.slot(name);
        self.variables.push(slot);
        Operand { node: Node::Variable(slot), depth: 1 }
    }

    /// CASE WHEN … THEN … [ELSE …] END, behind CASE.
    fn case(&mut self, at: usize) -> Result<Operand, SyntaxError> {
        let mut branches = Vec::new();
        let mut depth = 0;
        self.expect_word("when")?;
        loop {
            let condition = self.expression(0)?;
            self.expect_word("then")?;
            let value = self.expression(0)?;
            depth = depth.max(condition.depth).max(value.depth);
            branches.push((condition.node, value.node));
            match self.token {
                Token::Word("when") => self.advance()?,
                _ => break,
            }
        }
        let mut otherwise = constant(Number::Null);
        if self.token == Token::Word("else") {
            self.advance()?;
            otherwise = self.expression(0)?;
        } else if self.token != Token::Word("end") {
            return self.unexpected("WHEN, ELSE or END");
        }
        self.expect_word("end")?;
        let depth = depth.max(otherwise.depth);
        let case = Case { branches: branches.into(), otherwise: otherwise.node };
        self.deeper(at, Node::Case(Box::new(case)), depth)
    }

    fn expect_word(&mut self, word: &'static str) -> Result<(), SyntaxError> {
        self.expect(Token::Word(word), &word.to_ascii_uppercase())
    }

    /// A call, behind the name of the function.
    fn call(&mut self, at: usize, name: &str) -> Result<Operand, SyntaxError> {
        if self.token != Token::Symbol("(") {
            return SyntaxError::at(
                at,
                format!(
                    "syntax error: \"{name}\" is no value; a variable is written \":{name}\", a call \"{name}(…)\""
                ),
            );
        }
        let function = Function::find(name).or_else(|message| SyntaxError::at(at, message))?;
        self.advance()?;
        let mut arguments = Vec::new();
        if self.token != Token::Symbol(")") {
            loop {
                arguments.push(self.expression(0)?);
                match self.token {
                    Token::Symbol(",") => self.advance()?,
                    Token::Symbol(")") => break,
                    _ => return self.unexpected("\",\" or \")\""),
                }
            }
        }
        Function::check_arguments(name, arguments.len()).or_else(|message| SyntaxError::at(at, message))?;
        self.advance()?;
        self.function(at, function, arguments)
    }

    /// The node of a call with a right number of arguments.
    fn function(
        &mut self,
        at: usize,
        function: Function,
        mut arguments: Vec<Operand>,
    ) -> Result<Operand, SyntaxError> {
        let seeded = match function {
            Function::HashFnv1a | Function::HashMurmur2 => 2,
            Function::Permute => 3,
            _ => 0,
        };
        if arguments.len() < seeded {
            arguments.push(self.variable("default_seed"));
        }
        let depth = arguments.iter().map(|argument| argument.depth).max().unwrap_or(0);
        let nodes: Vec<Node> = arguments.into_iter().map(|argument| argument.node).collect();
        let node = match function {
            Function::Pi => Node::Constant(Number::Double(std::f64::consts::PI)),
            Function::Abs => one(Unary::Abs, nodes),
            Function::Int => one(Unary::Int, nodes),
            Function::Double => one(Unary::Double, nodes),
            Function::Exp => one(Unary::Exp, nodes),
            Function::Ln => one(Unary::Ln, nodes),
            Function::Sqrt => one(Unary::Sqrt, nodes),
            Function::Mod => Node::Binary(Binary::Modulo, exactly(nodes)),
            Function::Power => Node::Binary(Binary::Power, exactly(nodes)),
            Function::HashFnv1a => Node::Binary(Binary::HashFnv1a, exactly(nodes)),
            Function::HashMurmur2 => Node::Binary(Binary::HashMurmur2, exactly(nodes)),
            Function::Random => random(exactly(nodes)),
            Function::RandomExponential => Node::Draw(Draw::Exponential, exactly(nodes)),
            Function::RandomGaussian => Node::Draw(Draw::Gaussian, exactly(nodes)),
            Function::RandomZipfian => Node::Draw(Draw::Zipfian, exactly(nodes)),
            Function::Permute => Node::Permute(exactly(nodes)),
            Function::SysbenchZipf => {
                let arguments = *exactly(nodes);
                Node::SysbenchZipf(Box::new(SysbenchZipf { arguments, constants: OnceLock::new() }))
            }
            Function::Least => Node::Extreme(Extreme::Least, nodes.into()),
            Function::Greatest => Node::Extreme(Extreme::Greatest, nodes.into()),
            Function::Debug => {
                let [argument] = *exactly(nodes);
                Node::Debug(Box::new(DebugCall { argument, place: self.place.into() }))
            }
        };
        self.deeper(at, node, depth)
    }

    fn infix(
        &self,
        at: usize,
        operator: Infix,
        left: Operand,
        right: Operand,
    ) -> Result<Operand, SyntaxError> {
        match operator {
            Infix::Plain(operator) => self.binary(at, operator, left, right),
            // ">" is "<" the other way round: the right side is evaluated first, as pgbench does.
            Infix::Swapped(operator) => self.binary(at, operator, right, left),
            Infix::Logic(operator) => {
                let depth = left.depth.max(right.depth);
                self.deeper(at, Node::Logic(operator, Box::new([left.node, right.node])), depth)
            }
        }
    }

    fn binary(
        &self,
        at: usize,
        operator: Binary,
        left: Operand,
        right: Operand,
    ) -> Result<Operand, SyntaxError> {
        let depth = left.depth.max(right.depth);
        self.deeper(at, Node::Binary(operator, Box::new([left.node, right.node])), depth)
    }

    fn unary(&self, at: usize, operator: Unary, operand: Operand) -> Result<Operand, SyntaxError> {
        self.deeper(at, Node::Unary(operator, Box::new(operand.node)), operand.depth)
    }

    /// A node above others of the given depth, computed now if it is always the same.
    fn deeper(&self, at: usize, node: Node, depth: usize) -> Result<Operand, SyntaxError> {
        if depth >= MAX_DEPTH {
            return SyntaxError::at(at, format!("more than {MAX_DEPTH} operations within each other"));
        }
        Ok(match folded(&node) {
            Some(value) => constant(value),
            None => Operand { node, depth: depth + 1 },
        })
    }
}

fn constant(value: Number) -> Operand {
    Operand { node: Node::Constant(value), depth: 1 }
}

fn one(operator: Unary, nodes: Vec<Node>) -> Node {
    let [operand] = *exactly(nodes);
    Node::Unary(operator, Box::new(operand))
}

/// The arguments as an array; their number has been checked.
fn exactly<const N: usize>(nodes: Vec<Node>) -> Box<[Node; N]> {
    let given = nodes.len();
    nodes
        .into_boxed_slice()
        .try_into()
        .unwrap_or_else(|_| unreachable!("{given} arguments where {N} were checked"))
}

/// `random`; limits that are constant and right are checked once, here.
fn random(limits: Box<[Node; 2]>) -> Node {
    if let [Node::Constant(low), Node::Constant(high)] = *limits
        && let Ok((low, high)) = range(low, high)
    {
        return Node::Uniform { low, last: (high - low) as u64 };
    }
    Node::Random(limits)
}

/// The value of a node that draws no random number, prints nothing and has only constants below it.
/// An expression that fails is left as it is: it must fail when it is evaluated, not before.
fn folded(node: &Node) -> Option<Number> {
    let is_constant = |node: &Node| matches!(node, Node::Constant(_));
    let pure = match node {
        Node::Unary(_, operand) => is_constant(operand),
        Node::Binary(_, operands) | Node::Logic(_, operands) => operands.iter().all(is_constant),
        Node::Permute(arguments) => arguments.iter().all(is_constant),
        Node::Extreme(_, arguments) => arguments.iter().all(is_constant),
        Node::Constant(value) => return Some(*value),
        _ => false,
    };
    if !pure {
        return None;
    }
    node.run(&Vars::default(), &mut Rng::new(0)).ok()
}
