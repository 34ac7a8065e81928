//! The Rust peer: the kafka-protocol crate. Answers the harness line by line, as bench/rivals/README.md has it.

mod messages;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{LeaderAndIsrRequest, UpdateMetadataRequest};
use kafka_protocol::protocol::{Decodable, Encodable};

const FURTHER_BROKER_EPOCH: i64 = 381;
const MIN_ROUNDS: usize = 3;

/// The system's allocator, counting live bytes for the memory figure while `COUNTING` is up.
struct Counting;

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);
static COUNTING: AtomicIsize = AtomicIsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Relaxed) != 0 {
            LIVE_BYTES.fetch_add(layout.size() as isize, Relaxed);
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if COUNTING.load(Relaxed) != 0 {
            LIVE_BYTES.fetch_sub(layout.size() as isize, Relaxed);
        }
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The operations that both messages share.
trait Request: Decodable + Encodable {
    fn partitions(&self) -> usize;
    fn set_broker_epoch(&mut self, epoch: i64);
}

impl Request for LeaderAndIsrRequest {
    fn partitions(&self) -> usize {
        self.topic_states.iter().map(|topic| topic.partition_states.len()).sum()
    }

    fn set_broker_epoch(&mut self, epoch: i64) {
        self.broker_epoch = epoch;
    }
}

impl Request for UpdateMetadataRequest {
    fn partitions(&self) -> usize {
        self.topic_states.iter().map(|topic| topic.partition_states.len()).sum()
    }

    fn set_broker_epoch(&mut self, epoch: i64) {
        self.broker_epoch = epoch;
    }
}

/// One measured case, such as decode:LeaderAndIsrRequest:7:uniform.
trait Case {
    /// The result as bytes, to be compared with the other peers' before any time is believed.
    fn check(&mut self) -> Result<Vec<u8>>;
    /// The work to be timed.
    fn run(&mut self) -> Result<()>;
    fn partitions(&self) -> usize;
    /// Live MiB of one decoded request.
    fn memory(&self) -> Result<f64>;
}

struct Codec<R> {
    operation: String,
    version: i16,
    data: Bytes,
    decoded: R,
    reused: BytesMut,
}

impl<R: Request> Codec<R> {
    fn open(operation: &str, version: i16, data: Vec<u8>) -> Result<Self> {
        let data = Bytes::from(data);
        let decoded = R::decode(&mut data.clone(), version)?;
        let reused = BytesMut::with_capacity(data.len());
        Ok(Self { operation: operation.to_owned(), version, data, decoded, reused })
    }

    fn decode(&self) -> Result<R> {
        R::decode(&mut self.data.clone(), self.version)
    }

    fn encode_fresh(&self) -> Result<BytesMut> {
        let mut out = BytesMut::with_capacity(self.decoded.compute_size(self.version)?);
        self.decoded.encode(&mut out, self.version)?;
        Ok(out)
    }

    fn encode(&mut self) -> Result<()> {
        self.reused.clear();
        self.decoded.encode(&mut self.reused, self.version)
    }
}

impl<R: Request> Case for Codec<R> {
    fn check(&mut self) -> Result<Vec<u8>> {
        if self.operation == "decode" {
            self.decoded = self.decode()?;
        }
        if matches!(&*self.operation, "decode" | "encode_fresh") {
            return Ok(self.encode_fresh()?.to_vec());
        }
        self.run()?;
        Ok(self.reused.to_vec())
    }

    fn run(&mut self) -> Result<()> {
        match &*self.operation {
            "decode" => drop(black_box(self.decode()?)),
            "encode" => self.encode()?,
            "encode_fresh" => drop(black_box(self.encode_fresh()?)),
            "fanout" => {
                self.decoded.set_broker_epoch(FURTHER_BROKER_EPOCH);
                self.encode()?;
            }
            other => bail!("no operation {other}"),
        }
        Ok(())
    }

    fn partitions(&self) -> usize {
        self.decoded.partitions()
    }

    fn memory(&self) -> Result<f64> {
        LIVE_BYTES.store(0, Relaxed);
        COUNTING.store(1, Relaxed);
        let kept = black_box(self.decode());
        COUNTING.store(0, Relaxed);
        kept.map(|_| LIVE_BYTES.load(Relaxed) as f64 / f64::from(1 << 20))
    }
}

fn open(group: &str, directory: &Path, name: &str) -> Result<Option<Box<dyn Case>>> {
    if group == "messages" {
        return messages::open(directory, name);
    }
    let words: Vec<&str> = name.split(':').collect();
    let &[operation, message, version, shape] = words.as_slice() else { return Ok(None) };
    let data = std::fs::read(directory.join(format!("{message}.{version}.{shape}.bin")))?;
    let version = version.parse()?;
    Ok(match message {
        "LeaderAndIsrRequest" => Some(Box::new(Codec::<LeaderAndIsrRequest>::open(operation, version, data)?)),
        "UpdateMetadataRequest" => Some(Box::new(Codec::<UpdateMetadataRequest>::open(operation, version, data)?)),
        _ => None,
    })
}

fn time(case: &mut dyn Case, seconds: f64) -> Result<String> {
    let partitions = case.partitions() as f64;
    let (begin, mut ns) = (Instant::now(), Vec::new());
    while ns.len() < MIN_ROUNDS || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        case.run()?;
        ns.push(format!("{:.3}", start.elapsed().as_nanos() as f64 / partitions));
    }
    Ok(format!("{{\"ns\": [{}]}}", ns.join(", ")))
}

fn answer(line: &str, group: &str, directory: &Path, made: &mut HashMap<String, Box<dyn Case>>) -> Result<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let name = *words.get(1).context("no case")?;
    if !made.contains_key(name) {
        match open(group, directory, name)? {
            Some(case) => made.insert(name.to_owned(), case),
            None => return Ok("{\"skip\": \"not supported\"}".to_owned()),
        };
    }
    let case = made.get_mut(name).context("just made")?;
    match words.as_slice() {
        ["check", _, path] => {
            std::fs::write(path, case.check()?)?;
            Ok("{}".to_owned())
        }
        ["time", _, seconds] => time(case.as_mut(), seconds.parse()?),
        ["memory", _] => Ok(format!("{{\"mib\": {:.1}}}", case.memory()?)),
        _ => bail!("no command {line}"),
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, group, directory] = words.as_slice() else { bail!("usage: rivals GROUP DIRECTORY") };
    let directory = PathBuf::from(directory);
    let mut made = HashMap::new();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        match answer(&line?, group, &directory, &mut made) {
            Ok(reply) => writeln!(out, "{reply}")?,
            Err(error) => writeln!(out, "{{\"error\": {:?}}}", error.to_string())?,
        }
        out.flush()?;
    }
    Ok(())
}
