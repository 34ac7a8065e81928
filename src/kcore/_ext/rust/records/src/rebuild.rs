//! Rewrites a batch's records as MemoryRecordsBuilder does if the topic's compression type is not the batch's.

use std::io::{Error, Result, Write};

use crate::codec::Compressor;
use crate::encode::put_varint;
use crate::fields::{Reader, Spans};
use crate::java_text::reencoded;
use crate::validate::Target;

/// A buffer of at most `most` bytes.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            return Err(Error::other("the rewritten records are larger than allowed"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Writes records in order. After a failure it writes no more; `finish` returns the failure.
pub struct Rebuilding {
    compressor: Result<Compressor<Bounded>>,
    /// The current record without its length.
    body: Vec<u8>,
    /// The length of `body` as a varint.
    length: Vec<u8>,
    first_timestamp: Option<i64>,
}

impl Rebuilding {
    pub fn new(target: Target) -> Self {
        let bounded = Bounded { bytes: Vec::new(), most: target.most_bytes };
        let compressor = Compressor::new(target.codec, target.level, bounded);
        Rebuilding { compressor, body: Vec::new(), length: Vec::new(), first_timestamp: None }
    }

    /// Writes record number `index` of the batch: `spans` are the positions of its fields in `bytes`.
    pub fn add(&mut self, bytes: &[u8], spans: &Spans, timestamp: i64, index: i32) {
        let first = *self.first_timestamp.get_or_insert(timestamp);
        let Ok(compressor) = &mut self.compressor else {
            return;
        };
        self.body.clear();
        self.body.push(0); // A record's own attributes have no meaning yet.
        put_varint(&mut self.body, timestamp.wrapping_sub(first));
        put_varint(&mut self.body, index.into());
        put_bytes(&mut self.body, spans.key.clone().map(|key| &bytes[key]));
        put_bytes(&mut self.body, spans.value.clone().map(|value| &bytes[value]));
        put_varint(&mut self.body, spans.header_count as i64);
        let mut headers = Reader { bytes, at: spans.headers_at };
        for _ in 0..spans.header_count {
            if let Ok((key, value)) = headers.header() {
                put_bytes(&mut self.body, Some(&reencoded(&bytes[key])));
                put_bytes(&mut self.body, value.map(|value| &bytes[value]));
            }
        }
        self.length.clear();
        put_varint(&mut self.length, self.body.len() as i64);
        let written = compressor.write_all(&self.length).and_then(|()| compressor.write_all(&self.body));
        if let Err(error) = written {
            self.compressor = Err(error);
        }
    }

    /// The bytes of the records after the batch's header, or why they cannot be written.
    pub fn finish(self) -> std::result::Result<Vec<u8>, String> {
        let finished = self.compressor.and_then(Compressor::finish);
        finished.map(|bounded| bounded.bytes).map_err(|error| error.to_string())
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_varint(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}
