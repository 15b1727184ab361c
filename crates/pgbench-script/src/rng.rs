//! The random numbers of a connection.

/// The generator pgbench uses: xoroshiro128**, seeded by splitmix64.
///
/// Sources: D. Blackman and S. Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM Trans.
/// Math. Softw. 47 (2021); <https://prng.di.unimi.it/> for splitmix64. A clone continues exactly
/// where the original stood, which is how a transaction is retried with the same values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    low: u64,
    high: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        let mut splitmix = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        // splitmix64 is a bijection of its counter: its two outputs are never both zero, the one
        // state xoroshiro cannot leave.
        Rng { low: splitmix(), high: splitmix() }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let low = self.low;
        let mixed = self.high ^ low;
        self.low = low.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.high = mixed.rotate_left(37);
        low.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// A uniform integer from `low` to `high`, both included; `low` if the range is empty.
    #[inline]
    pub fn uniform(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        low.wrapping_add(self.below(high.wrapping_sub(low) as u64) as i64)
    }

    /// A uniform integer from 0 to `last`, both included.
    ///
    /// As many of the highest bits as `last` has are drawn until they do not exceed it: every value
    /// is exactly as likely as any other, and fewer than two draws are needed on average.
    #[inline]
    pub fn below(&mut self, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        let shift = last.leading_zeros();
        loop {
            let value = self.next_u64() >> shift;
            if value <= last {
                return value;
            }
        }
    }

    /// A uniform double in [0, 1), a multiple of 2⁻⁵².
    #[inline]
    pub fn double(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 52) as f64;
        (self.next_u64() >> 12) as f64 * STEP
    }

    /// A standard normal deviate, by the sine half of the transform of G. E. P. Box and M. E.
    /// Muller, "A Note on the Generation of Random Normal Deviates", Ann. Math. Stat. 29 (1958).
    pub fn normal(&mut self) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        let radius = 1.0 - self.double();
        let angle = 1.0 - self.double();
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).sin()
    }
}
