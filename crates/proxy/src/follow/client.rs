//! What a client asks: each message joins the queue of those that wait for an answer.

use std::rc::Rc;

use super::{MOST_ASKED, MOST_NAMES, Session};
use crate::asked::{Asked, Portal, Prepared, Values, is_secret};
use crate::block::{self, Reason, Text};
use crate::budget::Held;
use crate::framing::{Taker, Wanted};

pub struct Client<'a> {
    pub session: &'a mut Session,
    pub now: u64,
}

impl Taker for Client<'_> {
    #[inline]
    fn begin(&mut self, tag: u8, _length: usize) -> Wanted {
        if matches!(tag, b'Q' | b'P' | b'B' | b'E' | b'C' | b'D') { Wanted::Whole } else { Wanted::Nothing }
    }

    fn piece(&mut self, _bytes: &[u8]) {}

    #[inline]
    fn end(&mut self, tag: u8, body: Option<&[u8]>) {
        let session = &mut *self.session;
        if session.skipping && tag != b'S' {
            return;
        }
        if session.asked.len() >= MOST_ASKED {
            session.is_lost = true;
            return;
        }
        if matches!(tag, b'Q' | b'P' | b'B' | b'D' | b'E' | b'F') {
            session.since.get_or_insert(self.now);
        }
        let is_understood = match tag {
            b'Q' => session.query(body, self.now),
            b'P' => session.parse(body),
            b'B' => session.bind(body),
            b'E' => session.execute(body, self.now),
            b'C' => session.close(body),
            b'D' => session.describe(body),
            b'F' => {
                let start = session.since.take().unwrap_or(self.now);
                session.asked.push_back(Asked::Call(start));
                Some(())
            }
            b'S' => {
                session.sync();
                Some(())
            }
            b'c' | b'f' => {
                if !std::mem::take(&mut session.copying_in) {
                    session.asked.push_back(Asked::CopyEnd);
                }
                Some(())
            }
            _ => Some(()),
        };
        session.is_lost |= is_understood.is_none();
    }
}

impl Session {
    fn query(&mut self, body: Option<&[u8]>, now: u64) -> Option<()> {
        let start = self.since.take().unwrap_or(now);
        let text = match body {
            Some(body) => self.text(block::cstr(body, &mut 0)?),
            None => Err(Reason::TooLong),
        };
        self.asked.push_back(Asked::Query(text, start));
        Some(())
    }

    fn text(&self, text: &[u8]) -> Result<Rc<Text>, Reason> {
        if is_secret(text) {
            return Err(Reason::Password);
        }
        Text::new(text, &self.budget).ok_or(Reason::TooLong)
    }

    fn parse(&mut self, body: Option<&[u8]>) -> Option<()> {
        let Some(body) = body else {
            // Its name is not known either.
            self.asked.push_back(Asked::Parse { name: (*b"").into(), made: None, prior: None });
            self.prepared.remove(&b""[..]);
            return Some(());
        };
        let mut at = 0;
        let name = block::cstr(body, &mut at)?;
        let text = self.text(block::cstr(body, &mut at)?);
        let count = block::u16_at(body, &mut at)?;
        let types = block::taken(body, &mut at, 4 * usize::from(count))?;
        let types = types.chunks(4).map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]));
        let made =
            Rc::new(Prepared { text, types: types.collect::<Vec<_>>().into(), named: !name.is_empty() });
        let name: Box<[u8]> = name.into();
        let has_room = self.prepared.len() < MOST_NAMES || name.is_empty();
        let prior = if has_room { self.prepared.insert(name.clone(), made.clone()) } else { None };
        self.asked.push_back(Asked::Parse { name, made: Some(made), prior });
        Some(())
    }

    fn bind(&mut self, body: Option<&[u8]>) -> Option<()> {
        let Some(body) = body else {
            // Its name is not known: it may be that of any portal.
            self.portals.clear();
            self.portals.insert((*b"").into(), Portal::unknown(Reason::TooLong));
            self.asked.push_back(Asked::Bind(None));
            return Some(());
        };
        let mut at = 0;
        let name = block::cstr(body, &mut at)?;
        let statement = block::cstr(body, &mut at)?;
        let prepared = self.prepared.get(statement).cloned();
        let mut portal = Portal::unknown(Reason::Unknown);
        if let Some(prepared) = &prepared {
            let (bytes, typed, behind) = block::parameters(&body[at..], &prepared.types.borrow())?;
            portal.reason = prepared.text.as_ref().err().copied();
            portal.binary = behind.chunks(2).skip(1).any(|code| code == [0, 1]);
            match Held::new(bytes, &self.budget) {
                Some(bytes) => portal.values = Some(Rc::new(Values { bytes, typed })),
                None => portal.reason = Some(Reason::TooLong),
            }
            portal.prepared = Some(prepared.clone());
        }
        self.asked.push_back(Asked::Bind(prepared));
        if let Some(slot) = self.portals.get_mut(name) {
            *slot = portal;
        } else if self.portals.len() < MOST_NAMES {
            self.portals.insert(name.into(), portal);
        }
        Some(())
    }

    fn execute(&mut self, body: Option<&[u8]>, now: u64) -> Option<()> {
        let start = self.since.take().unwrap_or(now);
        let name = block::cstr(body?, &mut 0)?;
        let execution = match self.portals.get_mut(name) {
            Some(portal) => portal.executed(start),
            None => Portal::unknown(Reason::Unknown).executed(start),
        };
        self.asked.push_back(Asked::Execute(execution));
        Some(())
    }

    fn close(&mut self, body: Option<&[u8]>) -> Option<()> {
        let (kind, rest) = body?.split_first()?;
        let name = block::cstr(rest, &mut 0)?;
        let closed = match kind {
            b'S' => self.prepared.remove_entry(name),
            _ => {
                self.portals.remove(name);
                None
            }
        };
        self.asked.push_back(Asked::Close(closed));
        Some(())
    }

    fn describe(&mut self, body: Option<&[u8]>) -> Option<()> {
        let (kind, rest) = body?.split_first()?;
        let name = block::cstr(rest, &mut 0)?;
        let statement = if *kind == b'S' { self.prepared.get(name).cloned() } else { None };
        self.asked.push_back(Asked::Describe(statement));
        Some(())
    }

    fn sync(&mut self) {
        self.since = None;
        self.skipping = false;
        // While rows are copied in, the server takes no notice of a Sync.
        if !self.copying_in {
            self.asked.push_back(Asked::Sync);
        }
    }
}
