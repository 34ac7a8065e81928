//! CRC-32C: the crc32c crate, and a version for CPUs with carry-less multiplication that is also fast on short inputs.

/// CRC-32C of the bytes, continued from `value`.
#[inline]
pub fn crc32c(value: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= x86_64::LEAST && is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        #[allow(unsafe_code)]
        // SAFETY: the CPU reports both instructions.
        return unsafe { x86_64::three_ways(value, bytes) };
    }
    crc32c::crc32c_append(value, bytes)
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi128_si64, _mm_cvtsi64_si128};
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};

    /// The least number of bytes for which three parallel CRCs are faster than one.
    pub const LEAST: usize = 96;
    /// Bytes that one CRC instruction reads.
    const WORD: usize = 8;
    /// The most words of one CRC before the three are combined.
    const MOST: usize = 512;
    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// Prefetch distance in bytes. It may exceed the input, since another batch usually follows.
    const AHEAD: usize = 3 * WORD * MOST;
    /// Castagnoli's polynomial. Its bits are reflected, as in all values of this module: the highest bit is x^0.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    /// The CRC instruction multiplies its input by x^32; one more because a carry-less 32 x 32 bit product has 63 bits.
    const SHIFTED: usize = 33;

    /// At index `words`: x^(64 * words - 33) mod the polynomial. Multiplication by it advances a CRC by `words` words.
    static SHIFTS: [u32; 2 * MOST + 1] = shifts();

    const fn shifts() -> [u32; 2 * MOST + 1] {
        let mut powers = [0; 2 * MOST + 1];
        let mut power = 1u32 << 31;
        let mut exponent = 0;
        while exponent <= 128 * MOST - SHIFTED {
            if (exponent + SHIFTED) % 64 == 0 {
                powers[(exponent + SHIFTED) / 64] = power;
            }
            power = (power >> 1) ^ (POLYNOMIAL * (power & 1));
            exponent += 1;
        }
        powers
    }

    /// CRC-32C of `bytes`, continued from `value`. The CRC instruction takes three cycles, but the CPU can start one in
    /// each cycle: the CRCs of three consecutive stretches are computed in parallel, then combined.
    ///
    /// # Safety
    /// The CPU must have SSE 4.2 and PCLMULQDQ.
    #[allow(unsafe_code)]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub unsafe fn three_ways(value: u32, bytes: &[u8]) -> u32 {
        let mut crc = u64::from(!value);
        let mut rest = bytes;
        while rest.len() >= LEAST {
            let words = (rest.len() / (3 * WORD)).min(MOST);
            let (first, behind) = rest.split_at(words * WORD);
            let (second, behind) = behind.split_at(words * WORD);
            let (third, behind) = behind.split_at(words * WORD);
            let start = first.as_ptr();
            let (mut a, mut b, mut c) = (crc, 0, 0);
            let both = first.chunks_exact(WORD).zip(second.chunks_exact(WORD));
            for (i, ((first, second), third)) in both.zip(third.chunks_exact(WORD)).enumerate() {
                if i % (LINE / WORD) == 0 {
                    // The hardware prefetcher does not follow three stretches, so this loop prefetches the next bytes,
                    // even after the end.
                    let ahead = |way| start.wrapping_add(AHEAD + (way * words + i) * WORD).cast();
                    (0..3).for_each(|way| _mm_prefetch(ahead(way), _MM_HINT_T0));
                }
                a = _mm_crc32_u64(a, word(first));
                b = _mm_crc32_u64(b, word(second));
                c = _mm_crc32_u64(c, word(third));
            }
            crc = _mm_crc32_u64(0, product(a, SHIFTS[2 * words]) ^ product(b, SHIFTS[words])) ^ c;
            rest = behind;
        }
        let words = rest.chunks_exact(WORD);
        let tail = words.remainder();
        crc = words.fold(crc, |crc, bytes| _mm_crc32_u64(crc, word(bytes)));
        if tail.is_empty() {
            return !(crc as u32);
        }
        // The last bytes are the upper bytes of a word: zeros before them do not change a CRC of zero.
        let unused = 8 * (WORD - tail.len());
        let last = word(&bytes[bytes.len() - WORD..]) >> unused;
        !((_mm_crc32_u64(0, (crc ^ last) << unused) ^ crc >> (64 - unused)) as u32)
    }

    #[inline]
    fn word(bytes: &[u8]) -> u64 {
        bytes.try_into().map_or(0, u64::from_le_bytes)
    }

    /// The carry-less product of a CRC and a power of x, not reduced by the polynomial.
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    unsafe fn product(crc: u64, power: u32) -> u64 {
        let (crc, power) = (_mm_cvtsi64_si128(crc as i64), _mm_cvtsi64_si128(i64::from(power)));
        _mm_cvtsi128_si64(_mm_clmulepi64_si128(crc, power, 0)) as u64
    }
}
