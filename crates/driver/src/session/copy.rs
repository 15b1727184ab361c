//! COPY … FROM STDIN: generated rows or the bytes of a file, cut into CopyData messages.

use std::fs::File;
use std::io::Read;

use pgbench_script::{Rng, Value, Vars};

use crate::events::{Failure, FailureKind};
use crate::generate::{self, Inputs, LocalTime, Piece};
use crate::program::{CopySource, CopyStatement};
use crate::wire;

/// Bytes of one CopyData message, about; large enough that the system calls do not count.
const CHUNK: usize = 64 * 1024;

/// What is still to be sent of one COPY.
pub(super) enum CopyStream<'a> {
    Rows { row: &'a [Piece], next: u64, last: u64, slot: u32 },
    File { path: &'a str, file: File },
}

impl<'a> CopyStream<'a> {
    pub fn open(copy: &'a CopyStatement) -> Result<CopyStream<'a>, Failure> {
        match &copy.source {
            CopySource::Rows { rows, row } => {
                Ok(CopyStream::Rows { row, next: 1, last: *rows, slot: copy.row_slot })
            }
            CopySource::File(path) => {
                let file = File::open(path).map_err(|e| {
                    Failure::new(FailureKind::Io, format!("cannot read {path} for COPY: {e}"))
                })?;
                Ok(CopyStream::File { path, file })
            }
        }
    }

    /// Appends the next chunk to `out`; false when that was the last one, with CopyDone behind it.
    pub fn fill(
        &mut self,
        out: &mut Vec<u8>,
        vars: &mut Vars,
        rng: &mut Rng,
        time: &mut LocalTime,
    ) -> Result<bool, Failure> {
        let mut more = true;
        let mut failure = None;
        wire::message(out, b'd', |out| match self {
            CopyStream::Rows { row, next, last, slot } => {
                let now = time.text();
                let full = out.len() + CHUNK;
                while *next <= *last && out.len() < full {
                    vars.set(*slot, Value::Int(*next as i64));
                    *next += 1;
                    let mut inputs = Inputs { vars, rng, splice: 0, now: &now };
                    if let Err(e) = generate::literal(row, &mut inputs, false, out) {
                        failure = Some(Failure::new(FailureKind::Script, e.to_string()));
                        return;
                    }
                    out.push(b'\n');
                }
                more = *next <= *last;
            }
            CopyStream::File { path, file } => {
                let at = out.len();
                out.resize(at + CHUNK, 0);
                match file.read(&mut out[at..]) {
                    Ok(n) => {
                        out.truncate(at + n);
                        more = n > 0;
                    }
                    Err(e) => {
                        failure =
                            Some(Failure::new(FailureKind::Io, format!("cannot read {path} for COPY: {e}")));
                    }
                }
            }
        });
        if !more {
            out.extend_from_slice(&wire::COPY_DONE);
        }
        failure.map_or(Ok(more), Err)
    }
}
