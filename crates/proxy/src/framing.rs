//! A stream of protocol messages taken apart as it passes: bytes in pieces of any size, messages out; no I/O.
//!
//! Source: PostgreSQL documentation, "Frontend/Backend Protocol", message formats.

use crate::budget::Budget;

/// What is to be done with the body of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing of it.
    Nothing,
    /// All of it at once.
    Whole,
    /// All of it, in pieces as they arrive.
    Pieces,
}

/// Takes the messages of one direction.
pub trait Taker {
    /// A message begins. length: bytes of its body.
    fn begin(&mut self, tag: u8, length: usize) -> Wanted;
    /// A piece of a body that is wanted in pieces.
    fn piece(&mut self, bytes: &[u8]);
    /// A message is over. body: none unless all of it was wanted and there was room for it.
    fn end(&mut self, tag: u8, body: Option<&[u8]>);
}

/// Longest message: PostgreSQL cannot make a row beyond 1 GiB.
const MOST: usize = 0x4000_0000;

/// Longest body that is kept: longer ones are passed on and not recorded.
pub const MOST_KEPT: usize = 1 << 20;

/// Where a stream stands between two reads.
pub struct Framer {
    head: [u8; 5],
    /// Bytes of `head` that are there.
    have: usize,
    /// Bytes of the body that are still to come.
    left: usize,
    wanted: Wanted,
    kept: Vec<u8>,
    budget: Budget,
}

/// The stream is not the protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl Framer {
    pub fn new(budget: Budget) -> Framer {
        Framer { head: [0; 5], have: 0, left: 0, wanted: Wanted::Nothing, kept: Vec::new(), budget }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// A message has a length that none can have.
    pub fn feed(&mut self, mut bytes: &[u8], taker: &mut impl Taker) -> Result<(), Broken> {
        while !bytes.is_empty() {
            if self.have < 5 {
                let n = bytes.len().min(5 - self.have);
                self.head[self.have..self.have + n].copy_from_slice(&bytes[..n]);
                self.have += n;
                bytes = &bytes[n..];
                if self.have < 5 {
                    return Ok(());
                }
                let [tag, length @ ..] = self.head;
                let length = u32::from_be_bytes(length) as usize;
                if !(4..=MOST).contains(&length) {
                    return Err(Broken);
                }
                self.left = length - 4;
                self.wanted = taker.begin(tag, self.left);
                if self.wanted == Wanted::Whole {
                    // Most bodies are here as a whole: they are not copied.
                    if self.left <= bytes.len() {
                        taker.end(tag, Some(&bytes[..self.left]));
                        bytes = &bytes[self.left..];
                        self.have = 0;
                        continue;
                    }
                    if self.left > MOST_KEPT || !self.budget.take(self.left) {
                        self.wanted = Wanted::Nothing;
                    }
                }
            }
            let n = bytes.len().min(self.left);
            match self.wanted {
                Wanted::Nothing => {}
                Wanted::Pieces => taker.piece(&bytes[..n]),
                Wanted::Whole => self.kept.extend_from_slice(&bytes[..n]),
            }
            self.left -= n;
            bytes = &bytes[n..];
            if self.left == 0 {
                self.over(taker);
            }
        }
        Ok(())
    }

    fn over(&mut self, taker: &mut impl Taker) {
        self.have = 0;
        if self.wanted == Wanted::Whole {
            let kept = std::mem::take(&mut self.kept);
            taker.end(self.head[0], Some(&kept));
            self.budget.give(kept.len());
        } else {
            taker.end(self.head[0], None);
        }
    }
}

impl Drop for Framer {
    fn drop(&mut self) {
        if self.have == 5 && self.wanted == Wanted::Whole {
            self.budget.give(self.kept.len() + self.left);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Seen {
        messages: Vec<(u8, Option<Vec<u8>>)>,
        pieces: Vec<u8>,
    }

    impl Taker for Seen {
        fn begin(&mut self, tag: u8, _length: usize) -> Wanted {
            match tag {
                b'D' => Wanted::Pieces,
                b'N' => Wanted::Nothing,
                _ => Wanted::Whole,
            }
        }

        fn piece(&mut self, bytes: &[u8]) {
            self.pieces.extend_from_slice(bytes);
        }

        fn end(&mut self, tag: u8, body: Option<&[u8]>) {
            self.messages.push((tag, body.map(<[u8]>::to_vec)));
        }
    }

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    #[test]
    fn a_body_beyond_the_bound_passes_and_is_not_kept() {
        let budget = Budget::new(usize::MAX);
        let mut framer = Framer::new(budget.clone());
        let mut seen = Seen::default();
        let stream = [message(b'B', &vec![b'x'; MOST_KEPT + 1]), message(b'S', b"")].concat();
        for piece in stream.chunks(65_536) {
            framer.feed(piece, &mut seen).unwrap();
            assert!(framer.kept.len() <= MOST_KEPT);
        }
        assert_eq!(seen.messages, [(b'B', None), (b'S', Some(Vec::new()))]);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_length_that_cannot_be_breaks_the_stream() {
        for length in [0u32, 3, 0x4000_0001, u32::MAX] {
            let bytes = [&b"Q"[..], &length.to_be_bytes()].concat();
            let mut framer = Framer::new(Budget::new(1 << 20));
            assert_eq!(framer.feed(&bytes, &mut Seen::default()), Err(Broken));
        }
    }

    proptest! {
        /// However the bytes are cut on their way, the same messages come out, and nothing stays accounted for.
        #[test]
        fn any_cut_gives_the_same_messages(
            bodies in prop::collection::vec(
                (prop::sample::select(&b"QBDN"[..]), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            cuts in prop::collection::vec(1usize..40, 1..10),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|(tag, body)| message(*tag, body)).collect();
            let budget = Budget::new(1 << 20);
            let mut framer = Framer::new(budget.clone());
            let mut seen = Seen::default();
            let (mut rest, mut turn) = (&stream[..], 0);
            while !rest.is_empty() {
                let n = cuts[turn % cuts.len()].min(rest.len());
                framer.feed(&rest[..n], &mut seen).unwrap();
                rest = &rest[n..];
                turn += 1;
            }
            let expected: Vec<_> = bodies
                .iter()
                .map(|(tag, body)| (*tag, (!b"DN".contains(tag)).then(|| body.clone())))
                .collect();
            let rows: Vec<u8> =
                bodies.iter().filter(|(tag, _)| *tag == b'D').flat_map(|(_, body)| body.clone()).collect();
            prop_assert_eq!(seen.messages, expected);
            prop_assert_eq!(seen.pieces, rows);
            prop_assert_eq!(budget.used(), 0);
        }

        #[test]
        fn any_bytes_are_messages_or_break(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let budget = Budget::new(1 << 16);
            let mut framer = Framer::new(budget.clone());
            let _ = framer.feed(&bytes, &mut Seen::default());
            drop(framer);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
