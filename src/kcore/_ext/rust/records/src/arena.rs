//! Columns side by side in one allocation. A large allocation gets huge pages, since a page fault costs more than the
//! rows of a small page.

/// Extra bytes between two columns: writes to columns that begin at the same offset of a page slow each other down.
const STAGGER: usize = 320;
/// Alignment of a column, so that each element is aligned for its type.
const LINE: usize = 64;
/// The least allocation in bytes that gets huge pages; NumPy has the same limit.
#[cfg(target_os = "linux")]
const HUGE_FROM: usize = 1 << 22;
/// The page size in bytes: `madvise` takes the address of a whole page.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 12;

/// Columns whose elements have `widths` bytes, with room for `room` elements in each column.
pub struct Arena<const COLUMNS: usize> {
    pub bytes: Vec<u8>,
    /// The byte at which each column begins.
    pub places: [usize; COLUMNS],
    pub room: usize,
    widths: [usize; COLUMNS],
}

impl<const COLUMNS: usize> Arena<COLUMNS> {
    pub fn new(widths: [usize; COLUMNS], room: usize) -> Self {
        let mut end = 0;
        let places = widths.map(|width| {
            let place = end;
            end += (room * width).next_multiple_of(LINE) + STAGGER;
            place
        });
        Arena { bytes: zeros(end), places, room, widths }
    }

    /// The bytes of `count` elements from `first` on, of each column.
    pub fn elements(&mut self, first: usize, count: usize) -> [&mut [u8]; COLUMNS] {
        let (mut rest, mut taken) = (self.bytes.as_mut_slice(), 0);
        std::array::from_fn(|column| {
            let begin = self.places[column] + first * self.widths[column];
            let end = begin + count * self.widths[column];
            let (before, behind) = std::mem::take(&mut rest).split_at_mut(end - taken);
            rest = behind;
            &mut before[begin - std::mem::replace(&mut taken, end)..]
        })
    }

    /// Makes room for `room` elements in each column; keeps the first `kept`.
    pub fn grow(&mut self, room: usize, kept: usize) {
        let mut grown = Self::new(self.widths, room);
        grown.elements(0, kept).into_iter().zip(self.elements(0, kept)).for_each(|(to, from)| to.copy_from_slice(from));
        *self = grown;
    }
}

/// Zeroed memory whose pages are not touched yet.
pub fn zeros(size: usize) -> Vec<u8> {
    let bytes = vec![0; size];
    #[cfg(target_os = "linux")]
    if size >= HUGE_FROM {
        let begin = bytes.as_ptr().align_offset(PAGE);
        #[allow(unsafe_code)]
        // SAFETY: `bytes` owns the pages, and advice does not change their contents. A failure is harmless.
        unsafe {
            libc::madvise(bytes.as_ptr().add(begin).cast_mut().cast(), size - begin, libc::MADV_HUGEPAGE);
        }
    }
    bytes
}
