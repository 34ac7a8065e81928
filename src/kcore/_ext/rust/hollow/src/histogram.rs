//! Counts of durations, in 32 buckets between a power of two and the next, so the error is at most 3 %.

pub const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
/// Buckets for durations up to 2^40 ns, some 18 minutes; longer durations count in the last bucket.
const BUCKETS: usize = (40 - STEP_BITS as usize + 1) * STEPS;

pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }

    /// Counts one duration in nanoseconds; a negative one counts as 0.
    pub fn add(&mut self, duration_ns: i64) {
        self.counts[bucket_of(duration_ns.max(0) as u64).min(BUCKETS - 1)] += 1;
    }

    /// Counts the latencies until `now` of all requests that were due from `due` on, one every `interval`. The first is
    /// answered now. The others were not sent, because their sender waited for that answer. The work is bounded by the
    /// number of buckets, however many requests were due.
    pub fn add_due(&mut self, due: i64, interval: i64, now: i64) {
        self.add(now - due);
        let longest = now.saturating_sub(due);
        if interval <= 0 || longest <= interval {
            return;
        }
        let count = (longest - 1) / interval; // the number of the other requests, due before now
        if count <= BUCKETS as i64 {
            (1..=count).for_each(|later| self.add(longest - later * interval));
            return;
        }
        let at_least = |floor: i64| ((longest - floor) / interval).clamp(0, count);
        for bucket in 0..BUCKETS {
            let floor = floor_of(bucket);
            if floor >= longest {
                break;
            }
            let above = if bucket + 1 < BUCKETS { at_least(floor_of(bucket + 1)) } else { 0 };
            self.counts[bucket] += (at_least(floor) - above) as u64;
        }
    }

    /// The counts since the last call, as the bytes of int64 in native order.
    pub fn take(&mut self) -> Vec<u8> {
        let taken = self.counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
        self.counts.fill(0);
        taken
    }
}

/// The shortest duration of a bucket.
fn floor_of(bucket: usize) -> i64 {
    if bucket < STEPS {
        return bucket as i64;
    }
    ((bucket % STEPS + STEPS) as i64) << (bucket / STEPS - 1)
}

/// The bucket of a duration: one for each nanosecond below STEPS, and STEPS for each power of two above.
fn bucket_of(duration_ns: u64) -> usize {
    let power = 63 - (duration_ns | 1).leading_zeros();
    if power < STEP_BITS {
        return duration_ns as usize;
    }
    let octave = power - STEP_BITS;
    (octave as usize + 1) * STEPS + ((duration_ns >> octave) as usize - STEPS)
}
