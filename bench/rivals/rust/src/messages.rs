//! The group `messages`: the newest kafka-protocol, and the last one that has StopReplica.

use std::hint::black_box;
use std::path::Path;

use anyhow::{Result, bail};
use bytes::{Bytes, BytesMut};

use crate::Case;

const SMALL_REPEATS: usize = 200; // Runs of a round where one small message is too short for the clock.

/// A message of either release of the crate.
trait Wire: Sized {
    const NEWEST: i16;
    fn read(data: &mut Bytes, version: i16) -> Result<Self>;
    fn write(&self, out: &mut BytesMut, version: i16) -> Result<()>;
}

struct Message<M> {
    encodes: bool,
    version: i16,
    data: Bytes,
    decoded: M,
    reused: BytesMut,
    repeats: usize,
}

impl<M: Wire> Message<M> {
    fn encode(&mut self) -> Result<()> {
        self.reused.clear();
        self.decoded.write(&mut self.reused, self.version)
    }
}

impl<M: Wire> Case for Message<M> {
    fn check(&mut self) -> Result<Vec<u8>> {
        self.encode()?;
        Ok(self.reused.to_vec())
    }

    fn run(&mut self) -> Result<()> {
        for _ in 0..self.repeats {
            if self.encodes {
                self.encode()?;
            } else {
                drop(black_box(M::read(&mut self.data.clone(), self.version)?));
            }
        }
        Ok(())
    }

    fn partitions(&self) -> usize {
        self.repeats
    }

    fn memory(&self) -> Result<f64> {
        bail!("the group has no memory figure")
    }
}

fn make<M: Wire + 'static>(encodes: bool, version: i16, shape: &str, data: Vec<u8>) -> Result<Option<Box<dyn Case>>> {
    if version > M::NEWEST {
        return Ok(None);
    }
    let data = Bytes::from(data);
    let decoded = M::read(&mut data.clone(), version)?;
    let reused = BytesMut::with_capacity(data.len());
    let repeats = if shape == "small" { SMALL_REPEATS } else { 1 };
    Ok(Some(Box::new(Message { encodes, version, data, decoded, reused, repeats })))
}

macro_rules! messages {
    ($($release:ident: $($message:ident)+;)+) => {
        $($(
            impl Wire for $release::messages::$message {
                const NEWEST: i16 = <Self as $release::protocol::Message>::VERSIONS.max;

                fn read(data: &mut Bytes, version: i16) -> Result<Self> {
                    $release::protocol::Decodable::decode(data, version)
                }

                fn write(&self, out: &mut BytesMut, version: i16) -> Result<()> {
                    $release::protocol::Encodable::encode(self, out, version)
                }
            }
        )+)+

        /// Makes the case decode:FetchRequest:18:small; None if neither release has that message and version.
        pub fn open(directory: &Path, name: &str) -> Result<Option<Box<dyn Case>>> {
            let words: Vec<&str> = name.split(':').collect();
            let &[operation, message, version, shape] = words.as_slice() else { return Ok(None) };
            let data = std::fs::read(directory.join(format!("{message}.{version}.{shape}.bin")))?;
            let (encodes, version) = (operation == "encode", version.parse()?);
            match message {
                $($(stringify!($message) => make::<$release::messages::$message>(encodes, version, shape, data),)+)+
                _ => Ok(None),
            }
        }
    };
}

messages! {
    kafka_protocol_newest: VoteRequest BrokerHeartbeatRequest BrokerRegistrationRequest FetchRequest FetchResponse
        AlterPartitionRequest EnvelopeRequest AssignReplicasToDirsRequest DescribeQuorumResponse MetadataResponse
        CreateTopicsRequest;
    kafka_protocol: StopReplicaRequest;
}
