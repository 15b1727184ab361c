//! Hash functions and the pseudorandom permutation; results equal pgbench's bit for bit.

use super::rng::Rng;

/// FNV-1a over the eight bytes of `value`, lowest first (G. Fowler, L. C. Noll, K.-P. Vo,
/// <http://www.isthe.com/chongo/tech/comp/fnv/>); the seed is folded into the offset basis.
pub(super) fn fnv1a(value: i64, seed: i64) -> i64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let start = OFFSET_BASIS ^ seed as u64;
    value.to_le_bytes().iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)) as i64
}

/// MurmurHash64A of one eight-byte block (A. Appleby, <https://github.com/aappleby/smhasher>).
pub(super) fn murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mix = |word: u64| word ^ (word >> SHIFT);
    let block = mix((value as u64).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    let length = 8u64.wrapping_mul(MULTIPLIER);
    let hash = (seed as u64 ^ length ^ block).wrapping_mul(MULTIPLIER);
    mix(mix(hash).wrapping_mul(MULTIPLIER)) as i64
}

/// The place of `value` mod `size` in a pseudorandom permutation of 0 … `size` − 1 that `seed`
/// chooses.
///
/// The scheme is pgbench's (documentation of `permute`, PostgreSQL 15 on): six rounds, each a random
/// affine map and a rotation of the lower 2^k values and of the upper 2^k values, 2^k the largest
/// power of two that fits, then a random offset. Every step is a bijection, so the whole is one.
pub(super) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    const ROUNDS: usize = 6;
    if size < 2 {
        return 0;
    }
    let size = size as u64;
    let bits = size.ilog2();
    let mask = (1u64 << bits) - 1;
    let mut rng = Rng::new(seed as u64);
    let mut place = value as u64 % size;
    for _ in 0..ROUNDS {
        place = scramble(&mut rng, place, bits, mask);
        let from_top = scramble(&mut rng, size - 1 - place, bits, mask);
        place = size - 1 - from_top;
        // Both are below 2⁶³, so the sum cannot wrap.
        place = (place + rng.below(size - 1)) % size;
    }
    place as i64
}

/// One affine map and rotation of the values up to `mask`; others stay. Always draws twice, so that
/// the constants do not depend on the value.
fn scramble(rng: &mut Rng, value: u64, bits: u32, mask: u64) -> u64 {
    let odd = (rng.next_u64() & mask) | 1;
    let toggle = rng.next_u64() & mask;
    if value > mask {
        return value;
    }
    let mapped = (value.wrapping_mul(odd) ^ toggle) & mask;
    ((mapped << 1) & mask) | (mapped >> (bits - 1))
}
