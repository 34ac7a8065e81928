//! Reads the fields of records: zigzag varints and length-prefixed bytes, never past the end.

use crate::batches::Problem;

/// Bytes and the reader's position in them.
pub struct Cursor<'a> {
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// A zigzag varint, as ByteUtils.readVarint (`BITS` 32) or readVarlong (64). Bits beyond `BITS` are dropped.
    #[inline]
    fn zigzag<const BITS: u32>(&mut self) -> Result<i64, Problem> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..BITS).step_by(7) {
            let Some(&byte) = self.data.get(self.at) else {
                return Err(Problem::new("a varint that the bytes end in", start));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if BITS < 64 {
                    value &= (1 << BITS) - 1;
                }
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Problem::new("a varint too long for its field", start))
    }

    #[inline]
    pub fn varint(&mut self) -> Result<i32, Problem> {
        Ok(self.zigzag::<32>()? as i32) // 32 bits of zigzag are an i32 exactly.
    }

    #[inline]
    pub fn varlong(&mut self) -> Result<i64, Problem> {
        self.zigzag::<64>()
    }

    /// Skips one byte.
    pub fn skip_byte(&mut self) -> Result<(), Problem> {
        if self.at >= self.data.len() {
            return Err(Problem::new("a record shorter than its fields", self.at));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips a length and the bytes after it; returns their position and number. A negative length is null, returned as
    /// -1, as in Kafka.
    #[inline]
    pub fn span(&mut self) -> Result<(usize, i32), Problem> {
        let start = self.at;
        let length = self.varint()?;
        let begin = self.at;
        if length > 0 {
            if length as usize > self.data.len() - begin {
                return Err(Problem::new("a length beyond the bytes", start));
            }
            self.at += length as usize;
        }
        Ok((begin, length.max(-1)))
    }

    /// A cursor over the next length-prefixed bytes, after their length; this cursor moves to their end.
    #[inline]
    pub fn part(&mut self) -> Result<Cursor<'a>, Problem> {
        let start = self.at;
        let (begin, length) = self.span()?;
        if length < 0 {
            return Err(Problem::new("a record of negative length", start));
        }
        Ok(Cursor { data: &self.data[..self.at], at: begin })
    }
}
