//! The zstd stream: ZstdInputStreamNoFinalizer of zstd-jni over a ByteBufferInputStream.

use std::cell::RefCell;

use zstd::zstd_safe::{get_error_name, DCtx, InBuffer, OutBuffer, ResetDirective};

use super::{Fault, Read};

/// The largest context in bytes that is reused. It fits the window of the default level, but not one of 128 MiB.
const MOST_KEPT: usize = 4 * 1024 * 1024;

thread_local! {
    /// The context of the last batch in this thread, since a new context is expensive.
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

pub struct Zstd<'a> {
    context: Option<DCtx<'static>>,
    /// The unread bytes of the input, and the bytes that were read but not decompressed.
    rest: &'a [u8],
    source: &'a [u8],
    needs_read: bool,
    is_frame_finished: bool,
}

impl Drop for Zstd<'_> {
    fn drop(&mut self) {
        CONTEXT.set(self.context.take().filter(|context| context.sizeof() <= MOST_KEPT));
    }
}

impl<'a> Zstd<'a> {
    pub fn new(input: &'a [u8]) -> Read<Self> {
        let mut context = CONTEXT.take().unwrap_or_else(DCtx::create);
        context.reset(ResetDirective::SessionOnly).map_err(thrown)?;
        Ok(Zstd { context: Some(context), rest: input, source: &[], needs_read: true, is_frame_finished: true })
    }

    pub fn read(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        loop {
            match self.read_internal(into)? {
                Some(0) if !into.is_empty() => continue,
                read => return Ok(read),
            }
        }
    }

    fn read_internal(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        let mut written = 0;
        let mut before = None;
        while written < into.len() && before.is_none_or(|before| before < written) {
            if self.needs_read && (!self.rest.is_empty() || written == 0) {
                if self.rest.is_empty() {
                    self.source = &[];
                    // As in Java, a torn second frame within the same read is not noticed.
                    return if self.is_frame_finished { Ok(None) } else { Err(Fault::io("Truncated source")) };
                }
                (self.source, self.rest) = self.rest.split_at(self.rest.len().min(DCtx::in_size()));
                self.is_frame_finished = false;
            }
            before = Some(written);
            let Some(context) = &mut self.context else {
                return Ok(None);
            };
            let mut output = OutBuffer::around_pos(into, written);
            let mut input = InBuffer::around(self.source);
            let hint = context.decompress_stream(&mut output, &mut input).map_err(thrown)?;
            written = output.pos();
            self.source = &self.source[input.pos()..];
            if hint == 0 {
                self.is_frame_finished = true;
                self.needs_read = self.source.is_empty();
                return Ok(Some(written));
            }
            self.needs_read = written < into.len();
        }
        Ok(Some(written))
    }
}

fn thrown(code: usize) -> Fault {
    Fault::io(get_error_name(code))
}
