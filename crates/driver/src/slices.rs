//! Slices that this driver is given one by one while the drivers of other servers wait.
//!
//! A slice lasts until the last transaction that was begun in it has ended on every connection, and only then
//! the next driver is given its own: no two servers ever work at the same time, however long a statement
//! takes. Active time is the time inside of one's own slices.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{self, Nanos};
use crate::events::{Event, Events, Failure};
use crate::program::Role;
use crate::spec::Spec;
use crate::windows::EndedWindow;

/// Longest and shortest time between two looks whether there is a new slice.
const LOOK: (Nanos, Nanos) = (500_000, 5_000_000);

/// The slices of all connections of this driver.
pub struct Slices<'a> {
    connections: u64,
    /// Slices that are warm-up: one or none.
    warm: u64,
    warmup: Nanos,
    /// Slices that were given.
    given: AtomicU64,
    begins: AtomicU64,
    ends: AtomicU64,
    look: AtomicU64,
    /// Connections that have left the last one.
    left: AtomicU64,
    events: &'a Events,
}

impl<'a> Slices<'a> {
    /// Those of a step; None where its driver is not given any.
    ///
    /// # Errors
    /// What does not go with slices that are given.
    pub fn of(spec: &Spec, roles: &[Role], events: &'a Events) -> Result<Option<Slices<'a>>, Failure> {
        if !spec.slices {
            return Ok(None);
        }
        if spec.windows.is_some() || spec.frozen.is_some() || spec.replay.is_some() {
            return Err(Failure::spec("slices do not go with windows, frozen or a replay"));
        }
        if !spec.lockstep.is_empty() || roles.iter().any(|role| role.operations.is_some()) {
            return Err(Failure::spec("slices do not go with lockstep or a number of operations"));
        }
        let connections = roles.iter().map(|role| u64::from(role.clients)).sum();
        Ok(Some(Slices::new(connections, clock::nanos(spec.warmup_seconds), events)))
    }

    fn new(connections: u64, warmup: Nanos, events: &'a Events) -> Slices<'a> {
        Slices {
            connections,
            warm: u64::from(warmup > 0),
            warmup,
            given: AtomicU64::new(0),
            begins: AtomicU64::new(0),
            ends: AtomicU64::new(0),
            look: AtomicU64::new(LOOK.0),
            left: AtomicU64::new(connections),
            events,
        }
    }

    /// Gives a slice: transactions may begin for so many nanoseconds, as soon as every connection has seen it.
    ///
    /// # Errors
    /// The last slice has not ended.
    pub fn give(&self, now: Nanos, length: Nanos) -> Result<(), Failure> {
        if self.left.load(Ordering::SeqCst) < self.connections {
            return Err(Failure::spec("a slice was given before the last one had ended"));
        }
        let begins = now + self.look.swap((length / 20).clamp(LOOK.0, LOOK.1), Ordering::SeqCst);
        self.left.store(0, Ordering::SeqCst);
        self.begins.store(begins, Ordering::SeqCst);
        self.ends.store(begins + length, Ordering::SeqCst);
        self.given.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// True where the next slice is the first one that is measured.
    pub fn is_warm(&self) -> bool {
        self.given.load(Ordering::SeqCst) >= self.warm
    }

    /// A connection has left a slice; with the last one it is told.
    fn leave(&self, number: u64) {
        if self.left.fetch_add(1, Ordering::SeqCst) + 1 == self.connections {
            self.events.say(&Event::Slice { number });
        }
    }
}

/// Where one connection is.
pub struct CurrentSlice<'a> {
    of: &'a Slices<'a>,
    /// Slices that it has entered.
    number: u64,
    open: bool,
    zero: Nanos,
    from: Nanos,
    ends: Nanos,
    /// Active time before this slice.
    base: Nanos,
    operations: u64,
    last: Nanos,
}

impl<'a> CurrentSlice<'a> {
    pub fn new(of: &'a Slices<'a>, zero: Nanos) -> CurrentSlice<'a> {
        CurrentSlice {
            of,
            number: 0,
            open: false,
            zero,
            from: zero,
            ends: zero,
            base: 0,
            operations: 0,
            last: 0,
        }
    }

    /// How much later than its active time everything in this slice happens.
    fn paused(&self) -> Nanos {
        self.from.saturating_sub(self.zero + self.base)
    }

    /// Active time at `now`; that of a warm-up ends with it, however long its last transaction takes.
    #[inline]
    pub fn active(&self, now: Nanos) -> Nanos {
        let active = self.base + now.saturating_sub(self.from);
        self.zero
            + if self.number <= self.of.warm { active.min(self.of.warmup.saturating_sub(1)) } else { active }
    }

    #[inline]
    pub fn operation(&mut self, now: Nanos, operations: u64) {
        self.operations += operations;
        self.last = now;
    }

    /// When transactions may begin no more in the slice that is open.
    pub fn ends(&self) -> Nanos {
        if self.open { self.ends } else { Nanos::MAX }
    }

    /// Enters a slice that was given and begins at `now` or later. Returns how much longer this connection has
    /// been paused.
    pub fn enter(&mut self) -> Option<Nanos> {
        let given = self.of.given.load(Ordering::SeqCst);
        if self.open || given == self.number {
            return None;
        }
        let before = self.paused();
        self.number = given;
        self.open = true;
        self.from = self.of.begins.load(Ordering::SeqCst);
        self.ends = self.of.ends.load(Ordering::SeqCst);
        self.operations = 0;
        self.last = 0;
        Some(self.paused().saturating_sub(before))
    }

    /// Until when a connection waits at `now` that may not begin a transaction.
    pub fn waits(&self, now: Nanos) -> Option<Nanos> {
        match self.open {
            true => (now < self.from).then_some(self.from),
            false => Some(now + self.of.look.load(Ordering::Relaxed)),
        }
    }

    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        self.open && now >= self.ends
    }

    /// Leaves the slice that is open. None for one of the warm-up, and where none is open.
    pub fn close(&mut self, now: Nanos) -> Option<EndedWindow> {
        if !self.open {
            return None;
        }
        self.open = false;
        let end = self.ends.min(now).max(self.last).max(self.from);
        let busy = end - self.from;
        let ended = match self.number.checked_sub(self.of.warm + 1) {
            Some(number) => {
                self.base += busy;
                Some(EndedWindow { number, operations: self.operations, busy, times: None })
            }
            None => {
                self.base = self.of.warmup;
                None
            }
        };
        // Active time stands still until the next one.
        self.from = end.max(self.zero + self.base);
        ended
    }

    /// Says that this connection has left the slice that it was in.
    pub fn left(&self) {
        self.of.leave(self.number - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_slice_lasts_until_its_last_transaction_has_ended() {
        let events = Events::new();
        let all = Slices::new(1, 0, &events);
        let mut own = CurrentSlice::new(&all, 100 * MS);
        assert_eq!(own.enter(), None);
        assert_eq!(own.waits(100 * MS), Some(100 * MS + LOOK.0));
        all.give(110 * MS, 20 * MS).unwrap();
        assert_eq!(own.enter(), Some(10 * MS + LOOK.0));
        let from = 110 * MS + LOOK.0;
        assert_eq!((own.waits(110 * MS), own.waits(from)), (Some(from), None));
        own.operation(from + 50 * MS, 1);
        assert!(own.is_over(from + 50 * MS));
        assert_eq!(own.active(from + 50 * MS), 150 * MS);
        let ended = EndedWindow { number: 0, operations: 1, busy: 50 * MS, times: None };
        assert_eq!(own.close(from + 50 * MS), Some(ended));
        own.left();
        all.give(from + 150 * MS, 20 * MS).unwrap();
        assert!(own.enter().is_some());
        assert_eq!(own.active(own.from), 150 * MS, "active time stands still between slices");
    }

    #[test]
    fn the_warm_up_takes_none_of_the_measured_time() {
        let events = Events::new();
        let all = Slices::new(1, 10 * MS, &events);
        let mut own = CurrentSlice::new(&all, 0);
        all.give(0, 10 * MS).unwrap();
        own.enter();
        assert!(all.is_warm());
        own.operation(own.from + 300 * MS, 1);
        assert!(own.active(own.from + 300 * MS) < 10 * MS);
        assert_eq!(own.close(own.from + 300 * MS), None);
        own.left();
        all.give(500 * MS, 10 * MS).unwrap();
        own.enter();
        assert_eq!(own.active(own.from), 10 * MS);
    }

    #[test]
    fn a_slice_is_given_when_all_connections_have_left_the_last_one() {
        let events = Events::new();
        let all = Slices::new(2, 0, &events);
        let (mut first, mut second) = (CurrentSlice::new(&all, 0), CurrentSlice::new(&all, 0));
        all.give(0, MS).unwrap();
        first.enter();
        second.enter();
        first.close(2 * MS);
        first.left();
        assert!(all.give(3 * MS, MS).is_err());
        second.close(3 * MS);
        second.left();
        assert!(all.give(3 * MS, MS).is_ok());
    }
}
