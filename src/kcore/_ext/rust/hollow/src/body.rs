//! Reads the bodies of control requests by steps that Python derives from the schema, and builds their answers.

use crate::answers::Fields;

/// How to read one field. Lengths are compact: the number plus one, as a varint.
#[derive(Debug, PartialEq)]
pub enum Step {
    Skip(usize),       // bytes
    Text(bool),        // a string, and whether it may be null
    Items(usize),      // an array of elements of that many bytes
    Tags,              // tagged fields
    Topic,             // a topic's name, which the answer repeats for each of the topic's partitions
    TopicId,           // a topic's id of 16 bytes, which the answer repeats before the topic's partitions
    Partition,         // a partition's index (int32), which the answer repeats
    Rows(Box<[Step]>), // an array of structs
}

const ID_BYTES: usize = 16;
const INDEX_BYTES: usize = 4;
const CODE_BYTES: usize = 2;

/// The list that an answer has after its error code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lists {
    Nothing,
    Partitions, // each with its topic's name
    Topics,     // by id, with partitions
}

/// The steps for (name, number) pairs: "rows" begins an array of structs, "end" ends it. None if a pair is invalid.
pub fn program(named: &[(String, usize)]) -> Option<Box<[Step]>> {
    let mut rest = named.iter();
    let steps = steps_of(&mut rest, 0)?;
    rest.next().is_none().then_some(steps)
}

const DEEPEST: usize = 8; // Levels of arrays within arrays.

fn steps_of<'a>(named: &mut impl Iterator<Item = &'a (String, usize)>, depth: usize) -> Option<Box<[Step]>> {
    let mut steps = Vec::new();
    while let Some((name, number)) = named.next() {
        steps.push(match (name.as_str(), *number) {
            ("skip", bytes) if bytes > 0 => Step::Skip(bytes),
            ("text", nullable @ 0..=1) => Step::Text(nullable == 1),
            ("items", width) if width > 0 => Step::Items(width),
            ("tags", 0) => Step::Tags,
            ("topic", 0) => Step::Topic,
            ("topic_id", 0) => Step::TopicId,
            ("partition", 0) => Step::Partition,
            ("rows", 0) if depth < DEEPEST => Step::Rows(steps_of(named, depth + 1)?),
            ("end", 0) if depth > 0 && !steps.is_empty() => return Some(steps.into()),
            _ => return None,
        });
    }
    (depth == 0).then(|| steps.into())
}

/// The topics and partitions of a body, which its answer lists. A topic may have no partitions.
#[derive(Default)]
pub struct Found<'a> {
    topics: Vec<(&'a [u8], usize)>, // Each topic's name or id, and the index of its first partition in `partitions`.
    partitions: Vec<[u8; INDEX_BYTES]>,
}

impl<'a> Found<'a> {
    /// Reads a body by these steps; None if it does not fit them.
    pub fn read(body: &'a [u8], steps: &[Step]) -> Option<Self> {
        let mut found = Self::default();
        let mut fields = Fields(body);
        found.walk(&mut fields, steps)?;
        fields.0.is_empty().then_some(found)
    }

    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn walk(&mut self, fields: &mut Fields<'a>, steps: &[Step]) -> Option<()> {
        for step in steps {
            match step {
                Step::Skip(bytes) => drop(fields.bytes(*bytes)?),
                Step::Text(nullable) => drop(fields.text(*nullable)?),
                Step::Items(width) => {
                    let count = fields.varint()?.checked_sub(1)?;
                    fields.bytes(count.checked_mul(*width)?)?;
                }
                Step::Tags => fields.tags(&[])?,
                Step::Topic => {
                    let name = fields.text(false)?;
                    self.topics.push((name, self.partitions.len()));
                }
                Step::TopicId => {
                    let id = fields.bytes(ID_BYTES)?;
                    self.topics.push((id, self.partitions.len()));
                }
                Step::Partition => self.partitions.push(fields.array()?),
                Step::Rows(inner) => {
                    for _ in 0..fields.varint()?.checked_sub(1)? {
                        self.walk(fields, inner)?; // Each element has at least one byte, so the bytes bound this loop.
                    }
                }
            }
        }
        Some(())
    }

    /// Appends the answer's body to `into`, with this error code for the request and for all of its partitions.
    pub fn answer(&self, lists: Lists, error: i16, into: &mut Vec<u8>) {
        let code = error.to_be_bytes();
        into.extend(code);
        match lists {
            Lists::Nothing => {}
            Lists::Partitions => {
                into.reserve(self.partitions.len() * (2 * ID_BYTES + INDEX_BYTES + CODE_BYTES));
                put_varint(self.partitions.len() + 1, into);
                for (name, partitions) in self.by_topic() {
                    for index in partitions {
                        put_varint(name.len() + 1, into);
                        into.extend_from_slice(name);
                        put_partition(index, code, into);
                    }
                }
            }
            Lists::Topics => {
                into.reserve(self.topics.len() * 2 * ID_BYTES + self.partitions.len() * 2 * INDEX_BYTES);
                put_varint(self.topics.len() + 1, into);
                for (id, partitions) in self.by_topic() {
                    into.extend_from_slice(id);
                    put_varint(partitions.len() + 1, into);
                    for index in partitions {
                        put_partition(index, code, into);
                    }
                    into.push(NO_TAGS);
                }
            }
        }
        into.push(NO_TAGS);
    }

    fn by_topic(&self) -> impl Iterator<Item = (&'a [u8], &[[u8; INDEX_BYTES]])> {
        let ends = self.topics.iter().skip(1).map(|topic| topic.1).chain([self.partitions.len()]);
        let topics = self.topics.iter().zip(ends);
        topics.map(|(&(bytes, begin), end)| (bytes, self.partitions.get(begin..end).unwrap_or_default()))
    }
}

pub const NO_TAGS: u8 = 0;

fn put_partition(index: &[u8; INDEX_BYTES], code: [u8; CODE_BYTES], into: &mut Vec<u8>) {
    into.extend_from_slice(index);
    into.extend(code);
    into.push(NO_TAGS);
}

fn put_varint(mut value: usize, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}
