//! WindowSchedule: windows of time in which this driver works while the drivers of other servers wait.
//!
//! All drivers of a comparison are told the same zero on the monotonic clock and the same lengths, each
//! its own positions. Active time is the time inside of one's own windows: it stands still between them.

use crate::clock::{self, Nanos};
use crate::events::Failure;
use crate::run_delay::CpuTimes;
use crate::spec::{Spec, WindowsSpec};

/// When the windows of this driver begin.
#[derive(Debug, Clone)]
pub struct WindowSchedule {
    slice: Nanos,
    stride: Nanos,
    participants: u64,
    positions: Vec<u64>,
    /// Windows that are warm-up.
    pub warm: u64,
    /// Windows that are measured.
    count: u64,
}

impl WindowSchedule {
    /// The schedule of a step; None where it is not cut into windows.
    ///
    /// # Errors
    /// A step that cannot be cut into windows.
    pub fn of(spec: &Spec) -> Result<Option<WindowSchedule>, Failure> {
        let Some(windows) = &spec.windows else { return Ok(None) };
        let Some(seconds) = spec.seconds else {
            return Err(Failure::spec("windows need a step that ends by time"));
        };
        WindowSchedule::new(windows, spec.warmup_seconds, seconds).map(Some)
    }

    fn new(spec: &WindowsSpec, warmup: f64, seconds: f64) -> Result<WindowSchedule, Failure> {
        let slice = clock::nanos(spec.slice_seconds);
        let participants = u64::from(spec.participants);
        if slice < 1_000_000 {
            return Err(Failure::spec("windows need slices of at least 0.001 s"));
        }
        if spec.positions.is_empty() || spec.positions.iter().any(|p| *p >= spec.participants) {
            return Err(Failure::spec(
                "windows need a position in each pair: from 0, below the number of participants",
            ));
        }
        Ok(WindowSchedule {
            slice,
            stride: slice + clock::nanos(spec.gap_seconds),
            participants,
            positions: spec.positions.iter().map(|p| u64::from(*p)).collect(),
            warm: clock::nanos(warmup).div_ceil(slice),
            count: clock::nanos(seconds).div_ceil(slice).max(1),
        })
    }

    /// When window `number` begins, counted from the common zero.
    fn start(&self, number: u64) -> Nanos {
        let position = self.positions[number as usize % self.positions.len()];
        (number * self.participants + position) * self.stride
    }

    /// When the first measured window begins.
    pub fn measured_start(&self) -> Nanos {
        self.start(self.warm)
    }

    /// Active time before the first measured window.
    pub fn warm_active(&self) -> Nanos {
        self.warm * self.slice
    }

    /// When the last window ends.
    pub fn end(&self) -> Nanos {
        self.start(self.warm + self.count - 1) + self.slice
    }

    /// When so much active time has been measured; None if that is with the last window, or not at all.
    pub fn when(&self, active: Nanos) -> Option<Nanos> {
        let windows = active.div_ceil(self.slice).max(1);
        (windows < self.count).then(|| self.start(self.warm + windows - 1) + self.slice)
    }

    /// The first measured window, from 0, that has not certainly ended by `now`, counted from zero.
    pub fn open_at(&self, now: Nanos) -> u64 {
        (now / (self.stride * self.participants)).saturating_sub(self.warm + 1)
    }
}

/// What one connection did in one measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedWindow {
    /// From 0.
    pub number: u64,
    pub operations: u64,
    /// From the window's begin to its end, or to that of the last operation, which may be later.
    pub busy: Nanos,
    /// CPU times of the connection's processes; None where they are not known.
    pub times: Option<CpuTimes>,
}

/// Where one connection is in the schedule.
#[derive(Debug)]
pub struct CurrentWindow<'a> {
    schedule: &'a WindowSchedule,
    zero: Nanos,
    number: u64,
    from: Nanos,
    ends: Nanos,
    operations: u64,
    last: Nanos,
}

impl<'a> CurrentWindow<'a> {
    pub fn new(schedule: &'a WindowSchedule, zero: Nanos) -> CurrentWindow<'a> {
        let mut window =
            CurrentWindow { schedule, zero, number: 0, from: 0, ends: 0, operations: 0, last: 0 };
        window.enter(0);
        window
    }

    fn enter(&mut self, number: u64) {
        self.number = number;
        self.from = self.zero + self.schedule.start(number);
        self.ends = self.from + self.schedule.slice;
        self.operations = 0;
        self.last = 0;
    }

    /// How much later than its active time everything in this window happens.
    pub fn paused(&self) -> Nanos {
        self.from - self.zero - self.number * self.schedule.slice
    }

    /// Active time at `now`; what ends after its window counts to it.
    #[inline]
    pub fn active(&self, now: Nanos) -> Nanos {
        now.min(self.ends - 1) - self.paused()
    }

    #[inline]
    pub fn operation(&mut self, now: Nanos, operations: u64) {
        self.operations += operations;
        self.last = now;
    }

    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.ends
    }

    /// The begin of the present window if that lies ahead.
    #[inline]
    pub fn waits(&self, now: Nanos) -> Option<Nanos> {
        (now < self.from).then_some(self.from)
    }

    /// Closes the window; `now`: when the step is stopped in it. None for a window of the warm-up.
    pub fn close(&self, now: Nanos) -> Option<EndedWindow> {
        let number = self.number.checked_sub(self.schedule.warm)?;
        let end = self.ends.min(now).max(self.last).max(self.from);
        Some(EndedWindow { number, operations: self.operations, busy: end - self.from, times: None })
    }

    /// Goes on to the next window that has not ended. Returns how much longer it has been paused then.
    pub fn next(&mut self, now: Nanos) -> Nanos {
        let before = self.paused();
        while now >= self.ends {
            self.enter(self.number + 1);
        }
        self.paused() - before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::SECOND;

    const MS: Nanos = 1_000_000;

    fn schedule(positions: &[u32], warmup: f64, seconds: f64) -> WindowSchedule {
        let spec = WindowsSpec {
            slice_seconds: 0.02,
            gap_seconds: 0.001,
            participants: 2,
            positions: positions.to_vec(),
        };
        WindowSchedule::new(&spec, warmup, seconds).unwrap()
    }

    #[test]
    fn two_drivers_never_work_at_the_same_time_and_leave_out_nothing() {
        let (a, b) = (schedule(&[0, 1, 1, 0], 0.1, 2.0), schedule(&[1, 0, 0, 1], 0.1, 2.0));
        let mut starts: Vec<Nanos> = (0..50).flat_map(|k| [a.start(k), b.start(k)]).collect();
        starts.sort_unstable();
        for (i, start) in starts.into_iter().enumerate() {
            assert_eq!(start, i as u64 * 21 * MS);
        }
    }

    /// The vectors that pgstrata's own schedule is held against.
    #[derive(serde::Deserialize)]
    struct Vector {
        windows: WindowsSpec,
        warmup_seconds: f64,
        seconds: f64,
        warmup_windows: u64,
        measured_windows: u64,
        starts_ns: Vec<Nanos>,
        end_ns: Nanos,
    }

    #[test]
    fn windows_begin_when_the_vectors_say() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../../tests/windows.json")).unwrap();
        for v in vectors {
            let schedule = WindowSchedule::new(&v.windows, v.warmup_seconds, v.seconds).unwrap();
            assert_eq!((schedule.warm, schedule.count), (v.warmup_windows, v.measured_windows));
            let starts: Vec<Nanos> = (0..v.starts_ns.len() as u64).map(|k| schedule.start(k)).collect();
            assert_eq!(starts, v.starts_ns);
            assert_eq!(schedule.measured_start(), v.starts_ns[v.warmup_windows as usize]);
            assert_eq!(schedule.end(), v.end_ns);
        }
    }

    #[test]
    fn the_step_lasts_as_long_as_its_windows() {
        let a = schedule(&[0, 1, 1, 0], 0.1, 2.0);
        assert_eq!((a.warm, a.count), (5, 100));
        assert_eq!(a.measured_start(), a.start(5));
        assert_eq!(a.end(), a.start(104) + 20 * MS);
        assert_eq!(a.when(SECOND), Some(a.start(5 + 49) + 20 * MS));
        assert_eq!(a.when(2 * SECOND), None, "what reaches beyond the last window is waited for");
    }

    #[test]
    fn active_time_stands_still_between_windows() {
        let schedule = schedule(&[1, 0], 0.0, 2.0);
        let mut window = CurrentWindow::new(&schedule, 500 * MS);
        assert_eq!(window.waits(500 * MS), Some(521 * MS));
        assert_eq!(window.waits(521 * MS), None);
        window.operation(540 * MS, 3);
        assert_eq!(window.active(540 * MS), 519 * MS);
        assert!(window.is_over(541 * MS));
        assert_eq!(
            window.close(541 * MS),
            Some(EndedWindow { number: 0, operations: 3, busy: 20 * MS, times: None })
        );
        assert_eq!(window.next(541 * MS), MS, "the second window follows after the gap");
        assert_eq!(window.waits(541 * MS), Some(542 * MS));
        assert_eq!(window.active(542 * MS), 520 * MS);
    }

    #[test]
    fn an_operation_longer_than_its_window_counts_there_and_skips_others() {
        let schedule = schedule(&[0, 1, 1, 0], 0.0, 2.0);
        let mut window = CurrentWindow::new(&schedule, 0);
        window.operation(100 * MS, 1);
        assert_eq!(window.active(100 * MS), 20 * MS - 1);
        assert_eq!(
            window.close(100 * MS),
            Some(EndedWindow { number: 0, operations: 1, busy: 100 * MS, times: None })
        );
        window.next(100 * MS);
        assert_eq!((window.number, window.from), (2, schedule.start(2)));
    }

    proptest! {
        #[test]
        fn time_never_goes_backwards(times in prop::collection::vec(0u64..5_000 * MS, 1..200)) {
            let schedule = schedule(&[0, 1, 1, 0], 0.06, 2.0);
            let mut window = CurrentWindow::new(&schedule, 0);
            let (mut times, mut last) = (times, 0);
            times.sort_unstable();
            for now in times {
                window.next(now);
                let now = window.waits(now).unwrap_or(now);
                let active = window.active(now);
                prop_assert!(active >= last && active <= now);
                last = active;
            }
        }
    }
}
