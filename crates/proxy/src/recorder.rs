//! The files of a recording: blocks in the order in which they are handed over, each file up to a size.
//!
//! A thread of its own writes, so that no session ever waits for a disk. What is handed over survives the
//! process as soon as it is written; a file that a kill has cut in its last block is whole before it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

const MAGIC: &[u8; 16] = b"pgstrata record\n";
const VERSION: u32 = 1;

/// Blocks that may wait for the disk; what comes beyond is lost, and counted.
const MOST_WAITING: usize = 64;

/// How long the end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a recording goes, and how large it may become.
pub struct Place {
    pub folder: PathBuf,
    /// Bytes of all files together.
    pub most_bytes: u64,
    /// Bytes of a file, after which the next one begins.
    pub file_bytes: u64,
}

/// What has become of the recording.
#[derive(Default)]
pub struct Fate {
    stopped: AtomicBool,
    pub statements: AtomicU64,
    pub bytes: AtomicU64,
    /// Statements that came faster than the disk took them.
    pub lost: AtomicU64,
}

struct Chunk {
    bytes: Vec<u8>,
    statements: u64,
}

/// Takes blocks, and never waits.
#[derive(Clone)]
pub struct Recorder {
    to: SyncSender<Chunk>,
    pub fate: Arc<Fate>,
}

impl Recorder {
    /// Starts the thread that writes. The receiver hears of its end.
    ///
    /// # Errors
    /// The system's, where the first file cannot be made.
    pub fn start(place: Place) -> io::Result<(Recorder, Receiver<()>)> {
        let (to, from) = sync_channel(MOST_WAITING);
        let (over, ended) = sync_channel(1);
        let fate = Arc::new(Fate::default());
        let mut files = Files::new(place, fate.clone())?;
        thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            files.write_all(&from);
            let _ = over.send(());
        })?;
        Ok((Recorder { to, fate }, ended))
    }

    /// False once nothing is recorded any more.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.fate.stopped.load(Relaxed)
    }

    pub fn hand_over(&self, bytes: Vec<u8>, statements: u64) {
        if let Err(TrySendError::Full(_)) = self.to.try_send(Chunk { bytes, statements })
            && self.fate.lost.fetch_add(statements, Relaxed) == 0
        {
            eprintln!("the disk is slower than the traffic: a part of the statements is not recorded");
        }
    }
}

/// Waits until all blocks are written, for a while.
pub fn wait(ended: &Receiver<()>) -> bool {
    ended.recv_timeout(PATIENCE).is_ok()
}

struct Files {
    place: Place,
    fate: Arc<Fate>,
    file: File,
    number: u32,
    /// Bytes of this file, and of all.
    size: u64,
    whole: u64,
}

impl Files {
    fn new(place: Place, fate: Arc<Fate>) -> io::Result<Files> {
        let mut file = create(&place, 1)?;
        let size = begin(&mut file)?;
        Ok(Files { place, fate, file, number: 1, size, whole: size })
    }

    fn write_all(&mut self, from: &Receiver<Chunk>) {
        for chunk in from {
            // What comes behind the end of the recording is let go, so that nobody waits.
            if self.fate.stopped.load(Relaxed) {
                continue;
            }
            match self.write(&chunk.bytes) {
                Ok(true) => {
                    self.fate.statements.fetch_add(chunk.statements, Relaxed);
                    self.fate.bytes.store(self.whole, Relaxed);
                }
                Ok(false) => self.stop("it has its greatest size (--max-size)"),
                Err(e) => {
                    // The part of a block that was written would look like damage.
                    let _ = self.file.set_len(self.size);
                    self.stop(&e.to_string());
                }
            }
        }
        let _ = self.file.sync_data();
    }

    fn stop(&self, why: &str) {
        self.fate.stopped.store(true, Relaxed);
        eprintln!("recording has stopped: {why}; traffic goes on, and what was recorded stays");
    }

    /// Writes a block; false where there is no room for it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let length = 8 + bytes.len() as u64;
        if self.whole + length > self.place.most_bytes {
            return Ok(false);
        }
        if self.size + length > self.place.file_bytes && self.size > 24 {
            self.file.sync_data()?;
            self.file = create(&self.place, self.number + 1)?;
            self.number += 1;
            self.size = 0;
            self.size = begin(&mut self.file)?;
            self.whole += self.size;
        }
        let head = [(bytes.len() as u32).to_le_bytes(), crc32fast::hash(bytes).to_le_bytes()].concat();
        self.file.write_all(&head)?;
        self.file.write_all(bytes)?;
        self.size += length;
        self.whole += length;
        Ok(true)
    }
}

fn create(place: &Place, number: u32) -> io::Result<File> {
    let path = place.folder.join(format!("{number:06}.record"));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn begin(file: &mut File) -> io::Result<u64> {
    let head = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
    file.write_all(&head)?;
    Ok(head.len() as u64)
}
