//! Stretches of a step: so many operations of each connection of one role, and the time they took.
//!
//! Where variants take frozen turns a pair is the same stretch on both sides, whatever time each needs for it.
//! How long a stretch is may be told while the step runs; those that had begun by then are left out.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Nanos;
use crate::events::{Event, Events, Failure};
use crate::program::Role;
use crate::spec::Spec;
use crate::windows::EndedWindow;

/// The stretches of all connections of one role.
pub struct Stretches<'a> {
    /// Index of the role.
    pub role: usize,
    clients: u64,
    /// Operations of one connection; 0 until it is told.
    length: AtomicU64,
    /// How many connections have ended a stretch, by its number; those that all have ended are left out.
    ended: Mutex<BTreeMap<u64, u64>>,
    events: &'a Events,
}

impl<'a> Stretches<'a> {
    /// Those of a step; None where its driver is not stopped now and then.
    ///
    /// # Errors
    /// What does not go with being stopped, and a role that is not there.
    pub fn of(spec: &Spec, roles: &[Role], events: &'a Events) -> Result<Option<Stretches<'a>>, Failure> {
        let Some(frozen) = &spec.frozen else { return Ok(None) };
        if spec.windows.is_some() || spec.replay.is_some() {
            return Err(Failure::spec("frozen does not go with windows or a replay"));
        }
        if roles.iter().any(|role| role.reconnect) {
            return Err(Failure::spec("frozen needs connections that stay open"));
        }
        let Some(role) = roles.iter().find(|role| role.name == frozen.role) else {
            return Err(Failure::spec(format!("frozen: there is no role {}", frozen.role)));
        };
        Ok(Some(Stretches {
            role: role.index,
            clients: u64::from(role.clients),
            length: AtomicU64::new(0),
            ended: Mutex::new(BTreeMap::new()),
            events,
        }))
    }

    /// So many operations of one connection are a stretch from now on.
    pub fn are(&self, operations: u64) {
        self.length.store(operations, Ordering::SeqCst);
    }

    /// A connection has ended a stretch; with the last one it is told.
    fn end(&self, number: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(|e| e.into_inner());
        let connections = ended.entry(number).or_default();
        *connections += 1;
        if *connections == self.clients {
            ended.remove(&number);
            drop(ended);
            self.events.say(&Event::Stretch { number });
        }
    }
}

/// Where one connection is.
pub struct CurrentStretch<'a> {
    of: &'a Stretches<'a>,
    measured_from: Nanos,
    operations: u64,
    /// Operations at which the next stretch begins; 0 while it is not known how long they are.
    ends: u64,
    /// Operations and time at which this one began; None where that has not been seen.
    begun: Option<(u64, Nanos)>,
}

impl<'a> CurrentStretch<'a> {
    pub fn new(of: &'a Stretches<'a>, measured_from: Nanos) -> CurrentStretch<'a> {
        CurrentStretch { of, measured_from, operations: 0, ends: 0, begun: Some((0, measured_from)) }
    }

    /// So many operations have ended at `now`; the stretch that ended with them, if one did.
    #[inline]
    pub fn operation(&mut self, now: Nanos, operations: u64) -> Option<EndedWindow> {
        if now < self.measured_from {
            return None;
        }
        self.operations += operations;
        if self.operations < self.ends { None } else { self.step(now, operations) }
    }

    fn step(&mut self, now: Nanos, operations: u64) -> Option<EndedWindow> {
        let length = self.of.length.load(Ordering::Relaxed);
        if length == 0 {
            return None;
        }
        if self.ends == 0 {
            let before = self.operations - operations;
            if before > 0 {
                self.begun = None;
            }
            self.ends = (before / length + 1) * length;
            if self.operations < self.ends {
                return None;
            }
        }
        let number = self.ends / length - 1;
        let ended = self.begun.map(|(at, from)| EndedWindow {
            number,
            operations: self.operations - at,
            busy: now - from,
            times: None,
        });
        self.begun = Some((self.operations, now));
        self.ends = (self.operations / length + 1) * length;
        self.of.end(number);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(events: &Events, clients: u64) -> Stretches<'_> {
        Stretches { role: 0, clients, length: AtomicU64::new(0), ended: Mutex::new(BTreeMap::new()), events }
    }

    #[test]
    fn a_stretch_is_so_many_operations_and_the_time_they_took() {
        let events = Events::new();
        let all = stretches(&events, 1);
        all.are(3);
        let mut own = CurrentStretch::new(&all, 100);
        assert_eq!(own.operation(99, 1), None, "before the measured time");
        assert_eq!((own.operation(110, 1), own.operation(125, 1)), (None, None));
        assert_eq!(
            own.operation(160, 1),
            Some(EndedWindow { number: 0, operations: 3, busy: 60, times: None })
        );
        assert_eq!((own.operation(170, 0), own.operation(180, 2)), (None, None));
        assert_eq!(
            own.operation(190, 1),
            Some(EndedWindow { number: 1, operations: 3, busy: 30, times: None })
        );
    }

    #[test]
    fn what_had_begun_before_its_length_was_known_is_left_out() {
        let events = Events::new();
        let all = stretches(&events, 1);
        let mut own = CurrentStretch::new(&all, 0);
        for now in 1..=5 {
            assert_eq!(own.operation(now * 10, 1), None);
        }
        all.are(4);
        assert_eq!((own.operation(60, 1), own.operation(70, 1)), (None, None));
        assert_eq!(own.operation(80, 1), None, "its begin was not seen");
        for now in 9..=11 {
            assert_eq!(own.operation(now * 10, 1), None);
        }
        assert_eq!(
            own.operation(120, 1),
            Some(EndedWindow { number: 2, operations: 4, busy: 40, times: None })
        );
    }

    #[test]
    fn a_stretch_has_ended_when_all_connections_have_ended_it() {
        let events = Events::new();
        let all = stretches(&events, 2);
        all.end(0);
        all.end(1);
        assert_eq!(*all.ended.lock().unwrap(), BTreeMap::from([(0, 1), (1, 1)]));
        all.end(0);
        assert_eq!(*all.ended.lock().unwrap(), BTreeMap::from([(1, 1)]));
    }
}
