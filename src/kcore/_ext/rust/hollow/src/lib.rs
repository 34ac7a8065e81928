//! The Python module `kcore._ext.hollow`: loops that send and answer the requests of thousands of hollow brokers.

mod answers;
mod body;
mod broker;
mod certificates;
mod engine;
mod frame;
mod histogram;
mod link;
mod receivers;
mod receiving;
mod stream;
mod tape;
mod tls;
mod wire;

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::unix::pipe;
use mio::{Events, Poll, Registry, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use broker::{Broker, LINKS};
use engine::{Engine, Limits, Notice, Security, SLICE_NS};
use frame::Request;
use tls::ClientTls;
use wire::Fault;

const WAKE: Token = Token(usize::MAX);
const EVENTS_AT_ONCE: usize = 1024;
const OVERDUE_EVERY_NS: i64 = 500_000_000; // The time between two searches for overdue answers.
const CLOCK_READINGS: usize = 10; // Pairs of readings that `clocks` compares.

/// The state that Python and the loop's thread share. No thread waits for the GIL while it holds the state.
struct Shared {
    engine: Engine,
    is_woken: bool, // Python was woken and has not drained yet.
}

/// The hollow brokers of one process. Sends their heartbeats and fetches, and reads the answers, without Python.
///
/// Call `run` in a thread of its own; all other methods may be called meanwhile. Times are nanoseconds of
/// `time.monotonic_ns()`. `row` is a broker's index in the order of `add`; `which` is a connection: 0 for heartbeats,
/// 1 for fetches.
#[pyclass(frozen)]
struct Loop {
    shared: Mutex<Shared>,
    poll: Mutex<Poll>,
    registry: Registry,
    waker: Waker,
    stopped: AtomicBool,
    began: Instant,
    began_ns: i64,
    wake_sender: Mutex<pipe::Sender>,
    wake_receiver: pipe::Receiver,
}

impl Loop {
    fn now(&self) -> i64 {
        self.began_ns + self.began.elapsed().as_nanos() as i64
    }

    fn engine(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    /// Calls `work` with the state and the time without the GIL, then wakes the loop to handle changes of the state.
    fn order<T: Send>(
        &self,
        py: Python<'_>,
        row: usize,
        work: impl FnOnce(&mut Engine, i64) -> T + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut shared = self.engine();
            (row < shared.engine.brokers.len()).then(|| work(&mut shared.engine, self.now()))
        });
        self.waker.wake()?;
        done.ok_or_else(|| PyIndexError::new_err(format!("there is no hollow broker {row}")))
    }

    /// Wakes Python if there are notices or batches, but not again before Python has drained them.
    fn wake_python(&self, shared: &mut Shared) {
        let has_events = !shared.engine.notices.is_empty() || !shared.engine.tape.seen.is_empty();
        if has_events && !shared.is_woken {
            shared.is_woken = true;
            let _ = self.wake_sender.lock().write(&[1]); // A full pipe wakes Python, too.
        }
    }

    fn run_once(&self, poll: &mut Poll, events: &mut Events, timeout: Duration) -> std::io::Result<Duration> {
        match poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Duration::ZERO),
            found => found?,
        }
        let mut shared = self.engine();
        for event in events.iter().filter(|event| event.token() != WAKE) {
            shared.engine.on_event(event, self.now());
            MutexGuard::bump(&mut shared); // A call from Python waits for at most one connection.
        }
        let until = self.now() + SLICE_NS;
        let mut has_more = true;
        while has_more && self.now() < until {
            has_more = shared.engine.go_on(self.now());
            MutexGuard::bump(&mut shared);
        }
        shared.engine.begin_queued(&self.registry, self.now());
        let due = shared.engine.on_time(self.now()).unwrap_or(i64::MAX);
        self.wake_python(&mut shared);
        if has_more {
            return Ok(Duration::ZERO);
        }
        Ok(Duration::from_nanos(due.saturating_sub(self.now()).clamp(0, OVERDUE_EVERY_NS) as u64))
    }
}

/// The same moment by Rust's clock and by Python's `time.monotonic_ns()`. The closest of CLOCK_READINGS pairs of
/// readings is taken, since a thread may lose its processor between the two readings of a pair.
fn clocks(py: Python<'_>) -> PyResult<(Instant, i64)> {
    let monotonic_ns = py.import("time")?.getattr("monotonic_ns")?;
    let mut closest = None;
    for _ in 0..CLOCK_READINGS {
        let ours = Instant::now();
        let pythons: i64 = monotonic_ns.call0()?.extract()?;
        let apart = ours.elapsed();
        if closest.is_none_or(|(least, _, _)| apart < least) {
            closest = Some((apart, ours, pythons));
        }
    }
    closest.map(|(_, ours, pythons)| (ours, pythons)).ok_or_else(|| PyRuntimeError::new_err("no clock was read"))
}

fn check_link(which: usize) -> PyResult<()> {
    if which < LINKS {
        Ok(())
    } else {
        Err(PyIndexError::new_err(format!("a broker has no connection {which}")))
    }
}

fn request(of: (Vec<u8>, Vec<Option<usize>>), widths: &[usize]) -> PyResult<Request> {
    Request::new(of.0, of.1, widths).ok_or_else(|| PyValueError::new_err("a place is not within the request's frame"))
}

fn words_of<const N: usize>(rows: Vec<[i64; N]>) -> Vec<u8> {
    rows.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The result of `drain`: notices, the bytes of new batches, facts of these batches, arrivals.
type Drained<'py> = (Vec<Notice>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

#[pymethods]
impl Loop {
    #[new]
    #[pyo3(signature = (*, frame_bytes, timeout_ns, tls = None, authenticates = false))]
    fn new(
        py: Python<'_>,
        frame_bytes: usize,
        timeout_ns: i64,
        tls: Option<PyRef<'_, ClientTls>>,
        authenticates: bool,
    ) -> PyResult<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, WAKE)?;
        let (wake_sender, wake_receiver) = pipe::new()?;
        let security = Security { tls: tls.map(|tls| tls.config.clone()), authenticates };
        let engine = Engine::new(Limits { frame_bytes, timeout_ns }, security);
        let (began, began_ns) = clocks(py)?;
        Ok(Self {
            shared: Mutex::new(Shared { engine, is_woken: false }),
            poll: Mutex::new(poll),
            registry,
            waker,
            stopped: AtomicBool::new(false),
            began,
            began_ns,
            wake_sender: Mutex::new(wake_sender),
            wake_receiver,
        })
    }

    /// Works until `stop`, without the GIL; then closes all connections.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let done = py.detach(|| {
            let mut poll = self.poll.try_lock().ok_or(None)?;
            let mut events = Events::with_capacity(EVENTS_AT_ONCE);
            let (mut timeout, mut overdue) = (Duration::ZERO, self.now());
            while !self.stopped.load(Ordering::Relaxed) {
                timeout = self.run_once(&mut poll, &mut events, timeout).map_err(Some)?;
                if self.now() - overdue > OVERDUE_EVERY_NS {
                    overdue = self.now();
                    self.engine().engine.give_up_overdue(overdue);
                }
            }
            self.engine().engine.close_all();
            Ok(())
        });
        done.map_err(|error: Option<std::io::Error>| match error {
            Some(error) => PyOSError::new_err(error),
            None => PyRuntimeError::new_err("the loop runs already"),
        })
    }

    /// Ends `run` for good.
    fn stop(&self) -> PyResult<()> {
        self.stopped.store(true, Ordering::Relaxed);
        Ok(self.waker.wake()?)
    }

    /// A descriptor that is readable while `drain` has notices or batches to return.
    fn fileno(&self) -> i32 {
        self.wake_receiver.as_raw_fd()
    }

    /// Adds a hollow broker with the frames of its heartbeat and its fetch, and the byte positions of their changing
    /// fields. Returns its row.
    fn add(
        &self,
        py: Python<'_>,
        heartbeat: (Vec<u8>, Vec<Option<usize>>),
        fetch: (Vec<u8>, Vec<Option<usize>>),
        interval_ns: i64,
    ) -> PyResult<usize> {
        let heartbeat = request(heartbeat, &broker::heartbeat::WIDTHS)?;
        let fetch = request(fetch, &broker::fetch::WIDTHS)?;
        Ok(py.detach(|| {
            let mut shared = self.engine();
            shared.engine.brokers.push(Broker::new(heartbeat, fetch, interval_ns));
            shared.engine.brokers.len() - 1
        }))
    }

    /// Begins to connect to "address:port" and returns the time; a later notice reports the result. `name`: the host's,
    /// for TLS.
    #[pyo3(signature = (row, which, address, name = String::new()))]
    fn connect(&self, py: Python<'_>, row: usize, which: usize, address: &str, name: String) -> PyResult<i64> {
        check_link(which)?;
        let address: SocketAddr =
            address.parse().map_err(|_| PyValueError::new_err(format!("{address:?} is not address:port")))?;
        self.order(py, row, |engine, now| {
            engine.connect((row, which), address, name, &self.registry, now);
            now
        })
    }

    /// Sends a whole frame of Python before the loop's own requests; a notice "heard" has the answer.
    fn say(&self, py: Python<'_>, row: usize, which: usize, frame: Vec<u8>) -> PyResult<()> {
        check_link(which)?;
        self.order(py, row, |engine, now| engine.say(row, which, frame, now))
    }

    /// Lets the loop send its own requests again after `say`, or for the first time after an authentication.
    fn end_talk(&self, py: Python<'_>, row: usize, which: usize) -> PyResult<()> {
        check_link(which)?;
        self.order(py, row, |engine, now| engine.end_talk(row, which, now))
    }

    /// Closes a connection that the peer refuses; a notice with `why` follows.
    fn refuse(&self, py: Python<'_>, row: usize, which: usize, why: String) -> PyResult<()> {
        check_link(which)?;
        self.order(py, row, |engine, now| engine.fail(row, which, Fault { why, is_refusal: true }, now))
    }

    /// Closes a connection at once, as a killed process does. No notice follows.
    fn close(&self, py: Python<'_>, row: usize, which: usize) -> PyResult<()> {
        check_link(which)?;
        self.order(py, row, |engine, _| engine.brokers[row].links[which].close())
    }

    /// Sends heartbeats with this broker epoch: the first at `due_ns`, each later one `interval_ns` after an answer.
    #[pyo3(signature = (row, epoch, due_ns, interval_ns, *, want_shut_down = false))]
    fn beat(
        &self,
        py: Python<'_>,
        row: usize,
        epoch: i64,
        due_ns: i64,
        interval_ns: i64,
        want_shut_down: bool,
    ) -> PyResult<()> {
        self.order(py, row, |engine, now| {
            let broker = &mut engine.brokers[row];
            broker.live(epoch);
            broker.want_shut_down = want_shut_down;
            engine.set_beats(row, true, due_ns.max(now), interval_ns); // A past due time would count as latency.
        })
    }

    /// Stops heartbeats; the connection stays.
    fn rest(&self, py: Python<'_>, row: usize) -> PyResult<()> {
        self.order(py, row, |engine, _| engine.rest(row))
    }

    /// Sets the frame of all later heartbeats, for example with other offline directories.
    fn set_heartbeat(&self, py: Python<'_>, row: usize, heartbeat: (Vec<u8>, Vec<Option<usize>>)) -> PyResult<()> {
        let heartbeat = request(heartbeat, &broker::heartbeat::WIDTHS)?;
        self.order(py, row, |engine, _| engine.brokers[row].links[broker::HEARTBEATS].next = Some(heartbeat))
    }

    /// Begins or stops to fetch, from `offset` if it is given; `last_epoch`: the epoch of the record before `offset`.
    #[pyo3(signature = (row, fetches, *, offset = None, last_epoch = 0))]
    fn fetch(&self, py: Python<'_>, row: usize, fetches: bool, offset: Option<i64>, last_epoch: i32) -> PyResult<()> {
        self.order(py, row, |engine, now| {
            if let Some(offset) = offset {
                engine.brokers[row].seek(offset, last_epoch);
            }
            engine.set_fetches(row, fetches, now);
        })
    }

    /// Sets the epoch of the quorum's leader for the fetches of all brokers.
    fn set_leader_epoch(&self, py: Python<'_>, leader_epoch: i32) {
        py.detach(|| self.engine().engine.leader_epoch = leader_epoch);
    }

    /// Sets the offset of the next batch on the tape, after a snapshot or a truncation.
    fn seek_tape(&self, py: Python<'_>, offset: i64) {
        py.detach(|| self.engine().engine.tape.seek(offset));
    }

    /// Sets whether `drain` returns arrivals.
    fn keep_arrivals(&self, py: Python<'_>, keeps: bool) {
        py.detach(|| self.engine().engine.keeps_arrivals = keeps);
    }

    /// The events since the last call: (notices, bytes of new batches, batches (six int64 each), arrivals (three)).
    ///
    /// A notice is (row, connection, kind, time, detail). A batch: base offset, last offset, number of records, bytes,
    /// append time in ms, time of its first arrival. An arrival: row, end of the broker's committed records, time.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Drained<'py>> {
        let (notices, bytes, seen, arrivals) = py.detach(|| {
            let mut shared = self.engine();
            shared.is_woken = false;
            let mut byte = [0];
            let _ = std::io::Read::read(&mut &self.wake_receiver, &mut byte);
            let engine = &mut shared.engine;
            let tape = &mut engine.tape;
            (
                std::mem::take(&mut engine.notices),
                std::mem::take(&mut tape.bytes),
                std::mem::take(&mut tape.seen),
                std::mem::take(&mut engine.arrivals),
            )
        });
        let lend = |words: Vec<u8>| PyBytes::new(py, &words);
        Ok((notices, lend(bytes), lend(words_of(seen)), lend(words_of(arrivals))))
    }

    /// Counts of events by name.
    fn counters(&self, py: Python<'_>) -> Vec<(&'static str, u64)> {
        let counted = py.detach(|| self.engine().engine.counters.clone());
        vec![
            ("heartbeats", counted.heartbeats),
            ("fetches", counted.fetches),
            ("fetched_bytes", counted.fetched_bytes),
            ("dropped_bytes", counted.dropped_bytes),
            ("connections", counted.connections),
            ("closed", counted.closed),
            ("errors", counted.errors),
        ]
    }

    /// Bytes allocated for incomplete answers of all connections.
    fn buffered_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.engine().engine.buffered_bytes())
    }

    /// Heartbeats since the last call, as int64 counts: due time to answer, and due time to sending by this loop.
    fn histograms<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (latency, lag) = py.detach(|| {
            let mut shared = self.engine();
            (shared.engine.latency.take(), shared.engine.lag.take())
        });
        (PyBytes::new(py, &latency), PyBytes::new(py, &lag))
    }

    /// (Offset to fetch next, epoch of the record before it, high watermark, end of the broker's committed records).
    fn position(&self, py: Python<'_>, row: usize) -> PyResult<(i64, i32, i64, i64)> {
        self.order(py, row, |engine, _| {
            let broker = &engine.brokers[row];
            (broker.offset, broker.last_epoch, broker.high_watermark, broker.committed)
        })
    }

    /// When the last heartbeat of a row was sent; 0 before the first one.
    fn heartbeat_sent(&self, py: Python<'_>, row: usize) -> PyResult<i64> {
        self.order(py, row, |engine, _| engine.brokers[row].sent)
    }
}

/// A histogram of the latencies of requests that one answer at `answered_ns` ends: one every `interval_ns` from
/// `due_ns` on.
#[pyfunction]
fn due_latencies(py: Python<'_>, due_ns: i64, interval_ns: i64, answered_ns: i64) -> Bound<'_, PyBytes> {
    let mut found = histogram::Histogram::new();
    found.add_due(due_ns, interval_ns, answered_ns);
    PyBytes::new(py, &found.take())
}

#[pymodule]
fn hollow(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("HEARTBEATS", broker::HEARTBEATS)?;
    module.add("FETCHES", broker::FETCHES)?;
    module.add("CAUGHT_UP", engine::CAUGHT_UP)?;
    module.add("FENCED", engine::FENCED)?;
    module.add("SHOULD_SHUT_DOWN", engine::SHOULD_SHUT_DOWN)?;
    module.add("STEP_BITS", histogram::STEP_BITS)?;
    module.add_function(wrap_pyfunction!(due_latencies, module)?)?;
    module.add_function(wrap_pyfunction!(certificates::make_certificates, module)?)?;
    module.add_class::<ClientTls>()?;
    module.add_class::<Loop>()?;
    module.add_class::<receivers::Receivers>()
}
