//! Python's monotonic clock.

use rustix::time::{clock_gettime, ClockId};

/// The time in nanoseconds, as `time.monotonic_ns()` returns it.
pub fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
