//! The captured file, as crates/FORMATS.md has it: opened once, then read block by block, never as a whole.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use flate2::read::ZlibDecoder;
use serde::Deserialize;

use crate::events::{Failure, FailureKind};

const MAGIC: &[u8; 16] = b"pgstrata traffic";
const VERSION: u32 = 1;
const HEAD: usize = 24;
const TRAILER: usize = 64;
const ENTRY: usize = 40;

/// Bytes of the largest block, unpacked; at least one statement is in it. These bounds are also those of the
/// program that writes the file.
const MOST_BLOCK: u32 = 64 << 20;
/// Of the header, unpacked.
const MOST_HEADER: u64 = 32 << 20;
/// Common texts: how many, and all of them with their lengths.
const MOST_TEXTS: usize = 1 << 16;
const MOST_TEXT_BYTES: u64 = (16 << 20) + 5 * MOST_TEXTS as u64;
/// Microseconds since 1970 of the end of the year 9999.
pub const LATEST: u64 = 253_402_300_799_999_999;

/// Most bytes that zlib makes of so many.
fn packed_at_most(whole: u64) -> u64 {
    whole + whole / 1024 + 64
}

/// Unpacks data; none where they are damaged, cut, or more than `most` bytes.
fn inflated(packed: &[u8], most: u64, into: &mut Vec<u8>) -> Option<()> {
    let mut unpacker = ZlibDecoder::new(packed);
    let whole = unpacker.by_ref().take(most + 1).read_to_end(into).ok()? as u64;
    (whole <= most && unpacker.total_in() == packed.len() as u64).then_some(())
}

/// Letters of a statement that are part of its name in the events.
const SHOWN: usize = 150;

/// What is read of the header.
#[derive(Deserialize)]
struct Header {
    /// Microseconds since 1970, of the first and the last that is in the file.
    begin: u64,
    end: u64,
    databases: Vec<Database>,
    shapes: Vec<Shape>,
}

#[derive(Deserialize)]
struct Database {
    name: String,
}

#[derive(Deserialize)]
struct Shape {
    text: String,
}

/// One session of the directory; times in microseconds since the file's first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub begin: u64,
    pub end: u64,
    pub block: u64,
    pub statements: u64,
    pub database: u32,
}

pub struct Captured {
    file: File,
    path: String,
    begin: u64,
    /// Microseconds from the first beginning to the last end.
    pub length: u64,
    pub texts: Vec<Box<[u8]>>,
    /// What the statements of a shape are called in the events.
    pub shapes: Vec<String>,
    /// By shape: its statements are not sent. Empty: all are.
    skipped: Vec<bool>,
    databases: Vec<String>,
    directory: u64,
    entries: u64,
}

impl Captured {
    /// # Errors
    /// `io` where the file cannot be read, or is none that this driver knows.
    pub fn open(path: &str) -> Result<Captured, Failure> {
        let wrong = |why: &str| failure(path, why);
        let file = File::open(path).map_err(|e| wrong(&e.to_string()))?;
        let size = file.metadata().map_err(|e| wrong(&e.to_string()))?.len();
        let mut head = [0; HEAD];
        let read = file.read_exact_at(&mut head, 0);
        if read.is_err() || head[..16] != MAGIC[..] {
            return Err(wrong("it is no captured file"));
        }
        let version = u32_at(&head, 16);
        if version != VERSION {
            return Err(wrong(&format!("it has version {version}, and this driver knows {VERSION}")));
        }
        let mut trailer = [0; TRAILER];
        let at = size.checked_sub(TRAILER as u64).ok_or_else(|| wrong("its end is missing"))?;
        file.read_exact_at(&mut trailer, at).map_err(|e| wrong(&e.to_string()))?;
        if trailer[48..] != MAGIC[..] {
            return Err(wrong("its end is missing"));
        }
        let word = |n: usize| u64_at(&trailer, 8 * n);
        let lies_within = |place: u64, length: Option<u64>| {
            place >= HEAD as u64 && length.and_then(|n| place.checked_add(n)).is_some_and(|end| end <= at)
        };
        let section = |place: u64, length: u64, most: u64| -> Result<Vec<u8>, Failure> {
            if length > packed_at_most(most) || !lies_within(place, Some(length)) {
                return Err(wrong("it is damaged"));
            }
            let mut packed = vec![0; length as usize];
            file.read_exact_at(&mut packed, place).map_err(|e| wrong(&e.to_string()))?;
            let mut whole = Vec::new();
            inflated(&packed, most, &mut whole).ok_or_else(|| wrong("it is damaged"))?;
            Ok(whole)
        };
        if !lies_within(word(0), word(1).checked_mul(ENTRY as u64)) {
            return Err(wrong("it is damaged"));
        }
        let texts = texts(&section(word(2), word(3), MOST_TEXT_BYTES)?);
        let texts = texts.ok_or_else(|| wrong("it is damaged"))?;
        let header: Header = serde_json::from_slice(&section(word(4), word(5), MOST_HEADER)?)
            .map_err(|_| wrong("it is damaged"))?;
        if header.begin.max(header.end) > LATEST {
            return Err(wrong("it is damaged"));
        }
        let shapes = header.shapes.iter().enumerate().map(|(number, shape)| name(number, &shape.text));
        Ok(Captured {
            path: path.to_owned(),
            begin: header.begin,
            length: header.end.saturating_sub(header.begin),
            texts,
            shapes: shapes.collect(),
            skipped: Vec::new(),
            databases: header.databases.into_iter().map(|database| database.name).collect(),
            directory: word(0),
            entries: word(1),
            file,
        })
    }

    /// Statements of these shapes are not sent; numbers of no shape do nothing.
    pub fn skip(&mut self, shapes: &[u32]) {
        self.skipped = vec![false; if shapes.is_empty() { 0 } else { self.shapes.len() }];
        for &shape in shapes {
            if let Some(skipped) = self.skipped.get_mut(shape as usize) {
                *skipped = true;
            }
        }
    }

    pub fn skips(&self, shape: usize) -> bool {
        self.skipped.get(shape).copied().unwrap_or(false)
    }

    /// The number of a database; none where no session was there.
    pub fn database(&self, name: &str) -> Option<u32> {
        self.databases.iter().position(|one| one == name).map(|number| number as u32)
    }

    /// The sessions in the order of their beginning, a thousand at a time.
    pub fn sessions(&self) -> impl Iterator<Item = Result<Entry, Failure>> + '_ {
        let mut held: Vec<u8> = Vec::new();
        (0..self.entries).map(move |number| {
            let at = (number % 1024) as usize * ENTRY;
            if at == 0 {
                held.resize((self.entries - number).min(1024) as usize * ENTRY, 0);
                let place = self.directory + number * ENTRY as u64;
                self.file.read_exact_at(&mut held, place).map_err(|e| self.unreadable(&e))?;
            }
            let row = &held[at..at + ENTRY];
            if u64_at(row, 0).max(u64_at(row, 8)) > LATEST || u32_at(row, 32) as usize >= self.databases.len()
            {
                return Err(self.damaged());
            }
            Ok(Entry {
                begin: u64_at(row, 0).saturating_sub(self.begin),
                end: u64_at(row, 8).saturating_sub(self.begin),
                block: u64_at(row, 16),
                statements: u64_at(row, 24),
                database: u32_at(row, 32),
            })
        })
    }

    /// Puts the records of the block at this place into `into`; returns the place of the next one, 0 at the
    /// end. The system is asked to fetch that one.
    pub fn block(&self, at: u64, packed: &mut Vec<u8>, into: &mut Vec<u8>) -> Result<u64, Failure> {
        let mut head = [0; 16];
        self.file.read_exact_at(&mut head, at).map_err(|e| self.unreadable(&e))?;
        let (length, whole, next) = (u32_at(&head, 0), u32_at(&head, 4), u64_at(&head, 8));
        let end = at.saturating_add(16).saturating_add(u64::from(length));
        if whole > MOST_BLOCK
            || u64::from(length) > packed_at_most(whole.into())
            || (next != 0 && next < end)
            || end > self.directory
        {
            return Err(self.damaged());
        }
        packed.resize(length as usize, 0);
        self.file.read_exact_at(packed, at + 16).map_err(|e| self.unreadable(&e))?;
        into.clear();
        inflated(packed, whole.into(), into).ok_or_else(|| self.damaged())?;
        if into.len() != whole as usize {
            return Err(self.damaged());
        }
        if next != 0 {
            // SAFETY: advice about a file that is open; refused, it is only read later.
            unsafe {
                libc::posix_fadvise(self.file.as_raw_fd(), next as i64, 1 << 16, libc::POSIX_FADV_WILLNEED)
            };
        }
        Ok(next)
    }

    fn unreadable(&self, e: &io::Error) -> Failure {
        failure(&self.path, &e.to_string())
    }

    pub fn damaged(&self) -> Failure {
        failure(&self.path, "it is damaged")
    }
}

fn failure(path: &str, why: &str) -> Failure {
    Failure::new(FailureKind::Io, format!("the captured file {path} cannot be read: {why}"))
}

/// Unique by its number, and readable.
fn name(number: usize, text: &str) -> String {
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    let more = if end < text.len() { "…" } else { "" };
    format!("#{number} {}{more}", &text[..end])
}

fn texts(data: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < data.len() {
        if found.len() == MOST_TEXTS {
            return None;
        }
        let length = usize::try_from(varint(data, &mut at)?).ok()?;
        found.push(data.get(at..at.checked_add(length)?)?.into());
        at += length;
    }
    Some(found)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Seven bits a byte, the lowest first; none where the bytes end within it, or it has more than 64 bits.
#[inline]
pub fn varint(data: &[u8], at: &mut usize) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = *data.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 127).checked_shl(shift)?;
        if byte < 128 {
            return Some(value);
        }
        shift += 7;
    }
}
