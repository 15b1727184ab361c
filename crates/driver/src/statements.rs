//! Recorded statements on their way out: rows into files, an event for each.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::events::{Event, Events, Failure, FailureKind};
use crate::session::RecordedStatement;

/// Takes what sessions record, after their clocks have stopped.
pub struct StatementWriter<'e> {
    events: &'e Events,
    folder: Option<PathBuf>,
    files: AtomicU64,
}

impl<'e> StatementWriter<'e> {
    pub fn new(events: &'e Events, folder: Option<&str>) -> StatementWriter<'e> {
        StatementWriter { events, folder: folder.map(PathBuf::from), files: AtomicU64::new(0) }
    }

    /// Writes the rows of an execution, if they were kept, and says its event.
    pub fn write(&self, recorded: RecordedStatement) {
        let mut done = recorded.done;
        if let Some(folder) = &self.folder
            && done.error.is_none()
        {
            let number = self.files.fetch_add(1, Ordering::Relaxed);
            let name = format!("{number:06}.tsv");
            match fs::write(folder.join(&name), &recorded.rows) {
                Ok(()) => done.result = Some(name),
                Err(e) => self.events.say(&Event::Error(Failure::new(
                    FailureKind::Io,
                    format!("cannot write the rows of {}: {e}", done.name),
                ))),
            }
        }
        self.events.say(&Event::Statement(done));
    }
}
