//! Builds record batches from columns, as Kafka's DefaultRecord and DefaultRecordBatch write them.

use crate::batches::{CRC_START, HEADER_END, LENGTH_END};
use crate::codec::{compress, CODEC_MASK};
use crate::crc::crc32c;
use crate::spans::Buffers;

const MAGIC: u8 = 2;

/// The columns to write, one for each field. All integers are int64.
pub struct Source<'a> {
    /// The columns in the order of `Field`, with an element for each batch.
    pub batches: [&'a [i64]; 9],
    /// An element for each record; the first column, the record's batch, ascends.
    pub records: [&'a [i64]; 8],
    /// An element for each header.
    pub headers: [&'a [i64]; 4],
    /// The bytes of keys and values.
    pub buffers: Buffers<'a>,
    pub level: Option<i32>,
}

/// Why a row of a column cannot be written, with the row.
type Unfit = String;

/// The fields of a batch in the order of `Source::batches`.
#[derive(Clone, Copy)]
enum Field {
    BaseOffset,
    PartitionLeaderEpoch,
    Attributes,
    LastOffsetDelta,
    BaseTimestamp,
    MaxTimestamp,
    ProducerId,
    ProducerEpoch,
    BaseSequence,
}

fn unfit(what: &str, row: usize) -> Unfit {
    format!("{what} (row {row})")
}

pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

impl Source<'_> {
    fn field<T: TryFrom<i64>>(&self, field: Field, row: usize) -> Result<T, Unfit> {
        let value = self.batches[field as usize][row];
        T::try_from(value).map_err(|_| unfit("a batch's field out of its range", row))
    }

    /// Writes a key or a value with its length; a negative length is null.
    fn put_span(&self, out: &mut Vec<u8>, offset: i64, length: i64, row: usize) -> Result<(), Unfit> {
        let Ok(length) = usize::try_from(length) else {
            put_varint(out, -1);
            return Ok(());
        };
        let bytes = self.buffers.span(offset, length).map_err(|why| unfit(why, row))?;
        put_varint(out, length as i64);
        out.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the record of row `row` without its length.
    fn put_record(&self, out: &mut Vec<u8>, row: usize, base_offset: i64) -> Result<(), Unfit> {
        let [_, offset, timestamp_delta, key, key_length, value, value_length, header_end] = self.records;
        let offset_delta = offset[row].checked_sub(base_offset).filter(|delta| i32::try_from(*delta).is_ok());
        out.push(0); // A record's own attributes have no meaning yet.
        put_varint(out, timestamp_delta[row]);
        put_varint(out, offset_delta.ok_or_else(|| unfit("a record's offset too far from its batch's", row))?);
        self.put_span(out, key[row], key_length[row], row)?;
        self.put_span(out, value[row], value_length[row], row)?;
        let first = if row == 0 { 0 } else { header_end[row - 1] };
        put_varint(out, header_end[row].wrapping_sub(first));
        for header in first..header_end[row] {
            let header = usize::try_from(header).ok().filter(|&header| header < self.headers[0].len());
            let header = header.ok_or_else(|| unfit("the record has more headers than the columns", row))?;
            let [key, key_length, value, value_length] = self.headers.map(|column| column[header]);
            if key_length < 0 {
                return Err(unfit("a header without a key", row));
            }
            self.put_span(out, key, key_length, row)?;
            self.put_span(out, value, value_length, row)?;
        }
        Ok(())
    }

    /// Writes the records of rows `first` up to, not including, `end`, each with its length.
    fn put_records(&self, out: &mut Vec<u8>, first: usize, end: usize, base_offset: i64) -> Result<(), Unfit> {
        let mut record = Vec::new();
        for row in first..end {
            record.clear();
            self.put_record(&mut record, row, base_offset)?;
            put_varint(out, record.len() as i64);
            out.extend_from_slice(&record);
        }
        Ok(())
    }

    /// Writes the header of the batch of row `batch` without its length and CRC, which follow from its records.
    fn put_header(&self, out: &mut Vec<u8>, batch: usize, attributes: i16, count: usize) -> Result<(), Unfit> {
        let start = out.len();
        out.extend_from_slice(&self.field::<i64>(Field::BaseOffset, batch)?.to_be_bytes());
        out.extend_from_slice(&[0; 4]); // batchLength
        out.extend_from_slice(&self.field::<i32>(Field::PartitionLeaderEpoch, batch)?.to_be_bytes());
        out.extend_from_slice(&[MAGIC, 0, 0, 0, 0]); // and the CRC
        out.extend_from_slice(&attributes.to_be_bytes());
        out.extend_from_slice(&self.field::<i32>(Field::LastOffsetDelta, batch)?.to_be_bytes());
        out.extend_from_slice(&self.field::<i64>(Field::BaseTimestamp, batch)?.to_be_bytes());
        out.extend_from_slice(&self.field::<i64>(Field::MaxTimestamp, batch)?.to_be_bytes());
        out.extend_from_slice(&self.field::<i64>(Field::ProducerId, batch)?.to_be_bytes());
        out.extend_from_slice(&self.field::<i16>(Field::ProducerEpoch, batch)?.to_be_bytes());
        out.extend_from_slice(&self.field::<i32>(Field::BaseSequence, batch)?.to_be_bytes());
        let count = i32::try_from(count).map_err(|_| unfit("more records than a batch counts", batch))?;
        out.extend_from_slice(&count.to_be_bytes());
        debug_assert_eq!(out.len() - start, HEADER_END);
        Ok(())
    }

    /// Writes the batch of row `batch` with the records of rows `first` up to, not including, `end`.
    fn put_batch(&self, out: &mut Vec<u8>, batch: usize, first: usize, end: usize) -> Result<(), Unfit> {
        let start = out.len();
        let base_offset: i64 = self.field(Field::BaseOffset, batch)?;
        let mut attributes: i16 = self.field(Field::Attributes, batch)?;
        if first == end {
            // As in DefaultRecordBatch.writeEmptyHeader: no reader accepts an empty compressed stream.
            attributes &= !CODEC_MASK;
        }
        self.put_header(out, batch, attributes, end - first)?;
        if attributes & CODEC_MASK == 0 {
            self.put_records(out, first, end, base_offset)?;
        } else {
            let mut records = Vec::new();
            self.put_records(&mut records, first, end, base_offset)?;
            let failed = |error: std::io::Error| unfit(&error.to_string(), batch);
            compress(attributes & CODEC_MASK, self.level, &records, out).map_err(failed)?;
        }
        let length = i32::try_from(out.len() - start - LENGTH_END).map_err(|_| unfit("a batch over 2 GiB", batch))?;
        out[start + 8..start + LENGTH_END].copy_from_slice(&length.to_be_bytes());
        let crc = crc32c(0, &out[start + CRC_START..]);
        out[start + CRC_START - 4..start + CRC_START].copy_from_slice(&crc.to_be_bytes());
        Ok(())
    }

    /// The bytes of all batches, one after the other.
    pub fn encode(&self) -> Result<Vec<u8>, Unfit> {
        let batch_of_record = self.records[0];
        let mut out = Vec::new();
        let mut first = 0;
        for batch in 0..self.batches[0].len() {
            let count = batch_of_record[first..].iter().take_while(|&&row| row == batch as i64).count();
            self.put_batch(&mut out, batch, first, first + count)?;
            first += count;
        }
        match batch_of_record.get(first) {
            Some(_) => {
                Err(unfit("a record of an unknown batch, or of an earlier batch than the record before it", first))
            }
            None => Ok(out),
        }
    }
}
