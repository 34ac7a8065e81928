//! The bytes of a header's key after Kafka has rewritten it: RecordHeader replaces invalid UTF-8 by U+FFFD.

use std::borrow::Cow;

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// The UTF-8 bytes of Java's `new String(bytes, UTF_8)`.
pub fn reencoded(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        match sequence(rest) {
            Sequence::Valid(length) => {
                text.extend_from_slice(&rest[..length]);
                at += length;
            }
            Sequence::Malformed(length) => {
                text.extend_from_slice(REPLACEMENT);
                at += length;
            }
        }
    }
    Cow::Owned(text)
}

/// The kind of the first bytes, and their number.
enum Sequence {
    Valid(usize),
    /// The number of bytes that Java replaces by one U+FFFD. It replaces an encoded surrogate by one
    /// (String.decodeUTF8_UTF16), Rust by three.
    Malformed(usize),
}

fn sequence(bytes: &[u8]) -> Sequence {
    let length = match bytes[0] {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Sequence::Malformed(1),
    };
    if bytes.get(..length).is_some_and(|whole| std::str::from_utf8(whole).is_ok()) {
        return Sequence::Valid(length);
    }
    // The longest prefix with which a valid character could begin.
    let mut good = 1;
    while good < length && bytes.get(good).is_some_and(|&byte| can_follow(bytes[0], good, byte)) {
        good += 1;
    }
    Sequence::Malformed(good)
}

/// True if `byte` can be byte number `place` of a character whose first byte is `first`.
fn can_follow(first: u8, place: usize, byte: u8) -> bool {
    let range = match (place, first) {
        (1, 0xe0) => 0xa0..=0xbf,
        (1, 0xf0) => 0x90..=0xbf,
        (1, 0xf4) => 0x80..=0x8f,
        _ => 0x80..=0xbf,
    };
    range.contains(&byte)
}
