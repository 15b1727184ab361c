//! What a role does, compiled from the spec into flat code that a session steps through.

use pgbench_script::{Expr, Names, ShellWord, Sleep, Value};

use crate::clock::Nanos;
use crate::events::Failure;
use crate::generate::{self, Piece};
use crate::spec::{Mode, OperationUnit, ParamType, Pipeline, Prepare, RateSpec, RetrySpec};
use crate::wire;

/// One instruction. Jump targets are indices into the same code.
pub enum Op {
    Set {
        slot: u32,
        expr: Expr,
    },
    Sql(usize),
    Copy(usize),
    /// Goes on with the next instruction every n-th time, else jumps.
    Every {
        n: u64,
        first: bool,
        counter: usize,
        skip: usize,
    },
    JumpUnless {
        expr: Expr,
        target: usize,
    },
    Jump(usize),
    Sleep(Sleep),
    Pipeline(Pipeline),
    /// Runs a program; its output becomes the value of `result` if there is one.
    Shell {
        words: Box<[ShellWord]>,
        result: Option<u32>,
    },
}

/// The code of one script: `before`, then from `body` on what is timed.
pub struct Program {
    pub code: Vec<Op>,
    pub body: usize,
    /// Where the instructions stand, if they come from a pgbench script.
    pub source: Option<Source>,
}

/// A pgbench script's file, and the line of each of its instructions, from 1.
pub struct Source {
    pub file: Box<str>,
    pub lines: Vec<usize>,
}

impl Program {
    /// The failure of the instruction at `pc`, with its file and line where it has them.
    pub fn placed(&self, pc: usize, failure: Failure) -> Failure {
        match &self.source {
            Some(source) => Failure {
                file: Some(source.file.to_string()),
                line: source.lines.get(pc).copied(),
                ..failure
            },
            None => failure,
        }
    }
}

/// Where results of a statement go.
pub enum Destination {
    Nothing,
    /// These variables take the columns of the one row; NULL and no row are 0.
    Slots(Vec<u32>),
    /// pgbench's `\gset` (one row) and `\aset` (every query of a combined one).
    Gset(String),
    Aset(String),
}

pub struct Statement {
    pub name: String,
    pub mode: Mode,
    pub pieces: Vec<Piece>,
    /// The expression spliced into the text, and the range of its values.
    pub splice: Option<Splice>,
    /// Text to prepare, one for each splice value; none in simple mode.
    pub prepared: Vec<Prepared>,
    /// OIDs of the parameters' types; none where the server finds them out.
    pub types: Box<[u32]>,
    pub params: u16,
    /// Format codes of the results with their count in front, as Bind carries them.
    pub result_formats: &'static [u8],
    pub counted: bool,
    pub destination: Destination,
    pub record: bool,
    pub record_errors: bool,
}

pub struct Splice {
    pub expr: Expr,
    pub from: i64,
    pub to: i64,
    /// Its value never changes within a connection (`:client`), so only one text is prepared.
    pub fixed: bool,
}

pub struct Prepared {
    pub name: String,
    pub text: Box<[u8]>,
}

pub enum CopySource {
    Rows { rows: u64, row: Vec<Piece> },
    File(String),
}

pub struct CopyStatement {
    pub statement: usize,
    pub source: CopySource,
    /// The variable `row`.
    pub row_slot: u32,
}

/// Everything that all clients of a role share.
pub struct Role {
    pub name: String,
    pub index: usize,
    pub clients: u32,
    pub counts: OperationUnit,
    pub operations: Option<u64>,
    pub rate: Option<RateSpec>,
    pub retry: Option<RetrySpec>,
    /// Longer ones are late, and those due longer ago are not begun.
    pub latency_limit: Option<Nanos>,
    /// Each transaction has a connection of its own.
    pub reconnect: bool,
    pub prepare: Prepare,
    pub start: Vec<Op>,
    pub programs: Vec<Program>,
    /// Cumulative weights of the programs.
    pub weights: Vec<u64>,
    /// The name of each program, and how many of the statements are its own; those of `start` come before all.
    pub scripts: Vec<(String, usize)>,
    pub statements: Vec<Statement>,
    pub copies: Vec<CopyStatement>,
    pub counters: usize,
    pub names: Names,
    pub initial: Vec<(u32, Value)>,
    pub client_slot: u32,
    pub client_id_slot: u32,
    /// Variables shared by all roles of one client index, in the order of the spec.
    pub shared: Vec<u32>,
}

pub const INT4_OID: u32 = 23;
pub const INT8_OID: u32 = 20;
pub const VARCHAR_OID: u32 = 1043;
/// What Bind can count.
const MOST_PARAMS: u32 = 65_535;

impl Statement {
    /// Works out what the protocol needs once: texts, names, formats, types.
    pub fn finish(mut self, index: usize, declare: bool, binary_results: bool) -> Result<Statement, Failure> {
        if self.mode == Mode::Simple {
            return Ok(self);
        }
        let (from, to) = self.splice.as_ref().map_or((0, 0), |s| (s.from, s.to));
        let mut params = 0;
        for value in from..=to {
            params = 0;
            let mut text = Vec::new();
            generate::template(&self.pieces, value, &mut params, &mut text);
            self.prepared.push(Prepared { name: format!("s{index}_{value}"), text: text.into() });
        }
        if params > MOST_PARAMS {
            return Err(Failure::spec(format!(
                "statement {} has {params} parameters; the protocol carries at most {MOST_PARAMS}",
                self.name
            )));
        }
        self.params = params as u16;
        if declare {
            let mut types = Vec::new();
            generate::types(&self.pieces, &mut types);
            let oid = |kind: &ParamType| match kind {
                ParamType::Int4 => INT4_OID,
                ParamType::Int8 => INT8_OID,
                ParamType::Varchar => VARCHAR_OID,
                ParamType::Text => 0,
            };
            self.types = types.iter().map(oid).collect();
        }
        // What is read here is read as text.
        if binary_results && !self.record && matches!(self.destination, Destination::Nothing) {
            self.result_formats = &wire::BINARY_RESULTS;
        }
        Ok(self)
    }

    /// The text as a person would want it in a message.
    pub fn shown(&self, splice: i64) -> String {
        let (mut params, mut text) = (0, Vec::new());
        generate::template(&self.pieces, splice, &mut params, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn at(&self, splice: i64) -> &Prepared {
        let first = self.splice.as_ref().map_or(0, |s| s.from);
        &self.prepared[(splice - first) as usize]
    }

    /// Appends a Parse message; named for prepared statements, unnamed for extended ones.
    pub fn parse(&self, splice: i64, out: &mut Vec<u8>) {
        let prepared = self.at(splice);
        let name = match self.mode {
            Mode::Prepared => prepared.name.as_str(),
            _ => "",
        };
        wire::parse(out, name, &prepared.text, &self.types);
    }

    /// Appends Bind, Describe and Execute; `values` writes the parameters. Of a recorded statement the answer to
    /// Bind, before which the server plans it, comes at once.
    pub fn execute<E>(
        &self,
        splice: i64,
        out: &mut Vec<u8>,
        values: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        wire::message(out, b'B', |out| {
            out.push(0);
            if self.mode == Mode::Prepared {
                out.extend_from_slice(self.at(splice).name.as_bytes());
            }
            out.push(0);
            out.extend_from_slice(&wire::TEXT_PARAMETERS);
            out.extend_from_slice(&self.params.to_be_bytes());
            result = values(out);
            out.extend_from_slice(self.result_formats);
        });
        if self.record {
            out.extend_from_slice(&wire::DESCRIBE_FLUSH_EXECUTE);
        } else {
            out.extend_from_slice(&wire::DESCRIBE_EXECUTE);
        }
        result
    }
}

impl Role {
    /// Draws a script by weight; `draw` gives a uniform integer in [0, n).
    pub fn choose(&self, draw: impl FnOnce(u64) -> u64) -> usize {
        if self.programs.len() == 1 {
            return 0;
        }
        let total = *self.weights.last().expect("a role has a script");
        let point = draw(total);
        self.weights.partition_point(|w| *w <= point)
    }
}
