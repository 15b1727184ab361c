//! When a transaction may start: the step's beginning and end, fixed rates, lockstep.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pgbench_script::Rng;

use crate::clock::{self, Nanos, SECOND};
use crate::spec::{Arrivals, RateSpec};

/// Each engine's thread takes one of these from the eventfd, a semaphore, when the step is stopped.
const WAKINGS: u64 = 1 << 32;

/// The step's beginning and end, as all threads see them.
pub struct Control {
    deadline: AtomicU64,
    /// Until when answers may go on arriving, and how long after the deadline that is.
    answers_until: AtomicU64,
    answer_overtime: Nanos,
    opened: Mutex<Option<Nanos>>,
    bell: Condvar,
    /// Clients whose last transaction the step waits for; 0 where it ends by time.
    unfinished: AtomicU64,
    /// An eventfd that wakes engines that wait in the kernel.
    wake: Option<OwnedFd>,
}

impl Control {
    /// `unfinished`: clients that end by themselves, and the step with the last of them; 0 where
    /// the step ends by time.
    pub fn new(unfinished: u64, wake: Option<OwnedFd>) -> Control {
        Control {
            deadline: AtomicU64::new(Nanos::MAX),
            answers_until: AtomicU64::new(Nanos::MAX),
            answer_overtime: Nanos::MAX,
            opened: Mutex::new(None),
            bell: Condvar::new(),
            unfinished: AtomicU64::new(unfinished),
            wake,
        }
    }

    /// A client has done all its transactions. The last one ends the step, for those too that
    /// would go on forever.
    pub fn client_finished(&self) {
        let less = |n: u64| n.checked_sub(1);
        if self.unfinished.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(1) {
            self.stop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Nanos>> {
        self.opened.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Answers may go on arriving for so long after the step's end.
    pub fn with_answer_overtime(self, answer_overtime: Nanos) -> Control {
        Control { answer_overtime, ..self }
    }

    /// Opens the barrier: every role starts at `begin`, none starts a transaction after `deadline`.
    pub fn open(&self, begin: Nanos, deadline: Nanos) {
        // A stop that came before the start stays.
        let _ = self.deadline.compare_exchange(Nanos::MAX, deadline, Ordering::SeqCst, Ordering::SeqCst);
        self.end_answers(deadline);
        *self.lock() = Some(begin);
        self.bell.notify_all();
    }

    /// Waits at the barrier; returns the time at which it opened.
    pub fn wait_for_start(&self) -> Nanos {
        let mut opened = self.lock();
        loop {
            match *opened {
                Some(begin) => return begin,
                None => opened = self.bell.wait(opened).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    /// Ends the step: no transaction starts any more, sleepers wake up.
    pub fn stop(&self) {
        self.end_answers(clock::now());
        self.deadline.store(0, Ordering::SeqCst);
        {
            let _guard = self.lock();
            self.bell.notify_all();
        }
        if let Some(fd) = &self.wake {
            // A full counter also wakes, so the result is moot.
            let _ = rustix::io::write(fd, &WAKINGS.to_ne_bytes());
        }
    }

    /// True when no transaction may start at `now`.
    #[inline]
    pub fn over(&self, now: Nanos) -> bool {
        now >= self.deadline()
    }

    /// True when an answer that is still arriving at `now` has had its time.
    #[inline]
    pub fn answers_over(&self, now: Nanos) -> bool {
        now >= self.answers_until.load(Ordering::Relaxed)
    }

    fn end_answers(&self, deadline: Nanos) {
        self.answers_until.fetch_min(deadline.saturating_add(self.answer_overtime), Ordering::SeqCst);
    }

    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.deadline.load(Ordering::Relaxed)
    }

    /// Sleeps until `then`, or until the step is stopped.
    pub fn sleep_until(&self, then: Nanos) {
        let mut guard = self.lock();
        loop {
            let now = clock::now();
            if now >= then || self.over(now) {
                return;
            }
            let wait = clock::until(then.min(self.deadline()), now);
            guard = match self.bell.wait_timeout(guard, wait) {
                Ok((guard, _)) => guard,
                Err(e) => e.into_inner().0,
            };
        }
    }
}

/// The intended start times of one connection's transactions.
///
/// A server that falls behind does not move them: what waited is late by as much as it waited.
#[derive(Debug, Clone)]
pub struct Pace {
    interval: f64,
    arrivals: Arrivals,
    /// Nanoseconds since the barrier opened.
    next: f64,
}

impl Pace {
    /// `phase` in [0, 1) spreads the connections of a role over the first interval.
    pub fn new(rate: RateSpec, phase: f64) -> Pace {
        let interval = SECOND as f64 / rate.per_client;
        Pace { interval, arrivals: rate.arrivals, next: phase * interval }
    }

    /// The next intended start, in nanoseconds since the barrier opened.
    ///
    /// `Poisson` draws exponential gaps (memoryless arrivals, as pgbench's `--rate`).
    pub fn next(&mut self, rng: &mut Rng) -> Nanos {
        let start = self.next;
        self.next += match self.arrivals {
            Arrivals::Even => self.interval,
            Arrivals::Poisson => -(1.0 - rng.double()).ln() * self.interval,
        };
        start as Nanos
    }
}

/// Keeps connections in step, one of each role: none is ever more than `ahead` transactions ahead of another.
///
/// With `ahead` 0 they take turns, in their order.
pub struct Lockstep {
    ahead: u64,
    done: Box<[AtomicU64]>,
    gone: Box<[AtomicBool]>,
    waiting: AtomicU64,
    door: Mutex<()>,
    bell: Condvar,
}

impl Lockstep {
    pub fn new(sides: usize, ahead: u64) -> Lockstep {
        Lockstep {
            ahead,
            done: (0..sides).map(|_| AtomicU64::new(0)).collect(),
            gone: (0..sides).map(|_| AtomicBool::new(false)).collect(),
            waiting: AtomicU64::new(0),
            door: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    /// True when one more transaction of `side` keeps the distance to all others that have not left.
    pub fn may_start(&self, side: usize) -> bool {
        let own = self.done[side].load(Ordering::SeqCst);
        (0..self.done.len()).filter(|other| *other != side).all(|other| {
            let most_ahead = if self.ahead > 0 { self.ahead } else { u64::from(side < other) };
            self.gone[other].load(Ordering::SeqCst)
                || own < self.done[other].load(Ordering::SeqCst) + most_ahead
        })
    }

    pub fn finished_one(&self, side: usize) {
        self.done[side].fetch_add(1, Ordering::SeqCst);
        self.ring();
    }

    /// `side` does no more transactions; the others need not wait for it.
    pub fn leave(&self, side: usize) {
        self.gone[side].store(true, Ordering::SeqCst);
        self.ring();
    }

    fn ring(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _guard = self.door.lock().unwrap_or_else(|e| e.into_inner());
            self.bell.notify_all();
        }
    }

    /// Waits until `side` may start or the step is over. It looks at the clock now and then, so that
    /// a stop is noticed even if the others never come back.
    pub fn wait(&self, side: usize, control: &Control) {
        let mut guard = self.door.lock().unwrap_or_else(|e| e.into_inner());
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.may_start(side) && !control.over(clock::now()) {
            let nap = Duration::from_millis(20);
            guard = match self.bell.wait_timeout(guard, nap) {
                Ok((guard, _)) => guard,
                Err(e) => e.into_inner().0,
            };
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_client_to_finish_ends_the_step() {
        let control = Control::new(2, None);
        control.open(5, Nanos::MAX);
        control.client_finished();
        assert!(!control.over(10));
        control.client_finished();
        assert!(control.over(10));
    }

    #[test]
    fn clients_that_finish_do_not_end_a_step_that_ends_by_time() {
        let control = Control::new(0, None);
        control.open(5, 100);
        control.client_finished();
        assert!(!control.over(99));
        assert!(control.over(100));
    }

    #[test]
    fn even_pace_does_not_drift() {
        let rate = RateSpec { per_client: 3.0, arrivals: Arrivals::Even };
        let mut pace = Pace::new(rate, 0.0);
        let mut rng = Rng::new(1);
        let last = (0..3001).map(|_| pace.next(&mut rng)).last().unwrap();
        assert!(last.abs_diff(1000 * SECOND) < 1000, "{last}");
    }

    #[test]
    fn poisson_pace_keeps_its_mean() {
        let rate = RateSpec { per_client: 1000.0, arrivals: Arrivals::Poisson };
        let mut pace = Pace::new(rate, 0.0);
        let mut rng = Rng::new(7);
        let last = (0..100_000).map(|_| pace.next(&mut rng)).last().unwrap();
        // The sum of n exponential gaps has a relative deviation of 1/sqrt(n) = 0.3 %.
        assert!((last as f64 / (100.0 * SECOND as f64) - 1.0).abs() < 0.02);
    }

    #[test]
    fn lockstep_holds_the_distance_both_ways() {
        let pair = Lockstep::new(2, 8);
        for _ in 0..8 {
            assert!(pair.may_start(0));
            pair.finished_one(0);
        }
        assert!(!pair.may_start(0));
        for _ in 0..16 {
            assert!(pair.may_start(1));
            pair.finished_one(1);
        }
        assert!(!pair.may_start(1));
        pair.leave(0);
        assert!(pair.may_start(1));
    }
    #[test]
    fn none_of_three_leaves_the_slowest_behind() {
        let three = Lockstep::new(3, 2);
        for side in [0, 0, 1, 1] {
            assert!(three.may_start(side));
            three.finished_one(side);
        }
        assert!(!three.may_start(0) && !three.may_start(1));
        three.finished_one(2);
        assert!(three.may_start(0) && three.may_start(1));
        three.leave(2);
        three.finished_one(0);
        three.finished_one(0);
        assert!(!three.may_start(0) && three.may_start(1));
    }

    #[test]
    fn with_nothing_ahead_they_take_turns_in_their_order() {
        let three = Lockstep::new(3, 0);
        for _ in 0..4 {
            for side in 0..3 {
                assert_eq!(
                    [0, 1, 2].map(|other| three.may_start(other)),
                    [0, 1, 2].map(|other| other == side)
                );
                three.finished_one(side);
            }
        }
        three.leave(1);
        three.finished_one(0);
        assert!(three.may_start(2));
    }
}
