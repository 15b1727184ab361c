//! When the statements of a captured file are meant to start.

use crate::clock::Nanos;

/// Where the original's time begins in ours, and how fast it goes.
#[derive(Debug, Clone, Copy)]
pub struct ReplayPace {
    /// Times the original's; none: each statement follows the answer to the one before it.
    pub speed: Option<f64>,
    /// When the first session begins.
    pub zero: Nanos,
}

impl ReplayPace {
    /// When something is due that happened so many microseconds after the original's begin; none where
    /// statements are not paced.
    #[inline]
    pub fn due(&self, micros: u64) -> Option<Nanos> {
        self.speed.map(|speed| self.zero + (micros as f64 * 1e3 / speed) as Nanos)
    }
}
