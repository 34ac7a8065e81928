"""Copies flat records that differ only in the lengths of a few int32 vectors, as ISRs do while brokers fail.

A record is cut after the length of each of these vectors. The pieces have the same size in every record. Joined, they
are a record of one layout, whose fields are copied in blocks (`steps.pxd`). The pass that cuts or joins copies the
vectors one by one. It has no branch on a length, because a processor cannot predict such a branch.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kcore._ext.columns.program cimport BOOL, VECTOR, Node, Op
from kcore._ext.columns.steps cimport VALUES, Step, Steps, add_step, elements_key, find_counter

cdef extern from *:
    """
    #define KX_INLINE static inline __attribute__((always_inline, unused))
    enum { KX_VECTORS = 4, KX_LONGEST = 8, KX_CHECKS = 16, KX_OVER = 32 };
    /* If the processor can shuffle bytes (SSSE3, detected at run time), one instruction swaps four numbers. */
    #if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    #define KX_SHUFFLES 1
    typedef uint8_t kx_bytes __attribute__((vector_size(16)));
    #else
    #define KX_SHUFFLES 0
    #endif
    typedef struct {
        int64_t vectors;                  /* number of vectors that differ in length */
        int64_t most;                     /* bytes of a record whose vectors all have KX_LONGEST elements */
        int64_t piece[KX_VECTORS + 1];    /* bytes of each piece; all but the last end with the length of a vector */
        int64_t prefix[KX_VECTORS];       /* bytes of the length at the end of a piece: 1 or 4 */
        int64_t checks[KX_VECTORS + 1];   /* number of checks up to the end of a piece, an even number */
        int64_t start[KX_CHECKS];         /* a check compares 8 bytes from this position of the piece on */
        uint64_t mask[KX_CHECKS], value[KX_CHECKS];  /* the bits that a check compares, and their expected values */
    } kx_cuts;
    /* The length that ends at `at`; a negative one is returned as a very large number. */
    KX_INLINE uint64_t kx_length(const uint8_t *at, int64_t prefix) {
        uint32_t length;
        if (prefix == 1) return (uint64_t)at[-1] - 1;
        memcpy(&length, at - 4, 4);
        return kc_swap32(length);
    }
    KX_INLINE void kx_copy(uint8_t *to, const uint8_t *from, int64_t size) {
        memcpy(to, from, KX_OVER);  /* Usually one copy is enough; it may copy up to KX_OVER surplus bytes. */
        for (int64_t k = KX_OVER; k < size; k += KX_OVER) memcpy(to + k, from + k, KX_OVER);
    }
    KX_INLINE void kx_move4(uint8_t *to, const uint8_t *from, const int can_shuffle) {
    #if KX_SHUFFLES
        if (can_shuffle) {
            kx_bytes v;
            memcpy(&v, from, 16);
            v = __builtin_shuffle(v, (kx_bytes){3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12});
            memcpy(to, &v, 16);
            return;
        }
    #endif
        kc_move32x4(to, from);
    }
    KX_INLINE void kx_move(uint8_t *to, const uint8_t *from, int64_t length, const int can_shuffle) {
        kx_move4(to, from, can_shuffle);  /* Copies four or eight numbers; the surplus is overwritten later. */
        if (length > 4) kx_move4(to + 16, from + 16, can_shuffle);
    }
    KX_INLINE uint64_t kx_differs(const kx_cuts *m, const uint8_t *piece, int64_t check) {
        return (kc_load64(piece + m->start[check]) ^ m->value[check]) & m->mask[check];
    }
    /* Runs a piece's checks in pairs; 0 if all hold. The second check of the last pair may be one that always holds. */
    KX_INLINE uint64_t kx_check(const kx_cuts *m, const uint8_t *piece, int64_t first, int64_t end) {
        uint64_t different = 0;
        for (; first < end; first += 2) different |= kx_differs(m, piece, first) | kx_differs(m, piece, first + 1);
        return different;
    }
    /* Counts the records at `place`, at most `n`, that have the layout; adds their vectors' lengths to `totals`, and
       moves `place` to their end. */
    KX_INLINE int64_t kx_count_(
        const kx_cuts *restrict m, const uint8_t **place, int64_t n, int64_t *totals, const int64_t vectors
    ) {
        const uint8_t *at = *place;
        int64_t sums[KX_VECTORS] = {0}, r;
        for (r = 0; r < n; r++) {
            const uint8_t *from = at;
            uint64_t lengths[KX_VECTORS], different = 0;
            int64_t check = 0, k;
            for (k = 0; k < vectors; check = m->checks[k], k++) {
                different |= kx_check(m, from, check, m->checks[k]);
                from += m->piece[k];
                lengths[k] = kx_length(from, m->prefix[k]);
                if (lengths[k] > KX_LONGEST) break;
                from += 4 * lengths[k];
            }
            if (k < vectors) break;
            different |= kx_check(m, from, check, m->checks[vectors]);
            if (different) break;
            for (k = 0; k < vectors; k++) sums[k] += lengths[k];
            at = from + m->piece[vectors];
        }
        for (int64_t k = 0; k < vectors; k++) totals[k] += sums[k];
        *place = at;
        return r;
    }
    static inline int64_t kx_count(const kx_cuts *m, const uint8_t **place, int64_t n, int64_t *totals) {
        if (m->vectors == 1) return kx_count_(m, place, n, totals, 1);
        if (m->vectors == 2) return kx_count_(m, place, n, totals, 2);
        return kx_count_(m, place, n, totals, m->vectors);
    }
    /* Cuts `n` records: copies their pieces to `joined` and their vectors to columns, which have `filled` elements.
       Returns the end of the records. */
    KX_INLINE const uint8_t *kx_cut_(
        const kx_cuts *restrict m, const uint8_t *at, int64_t n, uint8_t *joined, uint8_t **values,
        int32_t **ends, int64_t *filled, const int64_t vectors, const int can_shuffle
    ) {
        uint8_t *to[KX_VECTORS];
        int32_t *end[KX_VECTORS];
        int64_t sums[KX_VECTORS], k;
        for (k = 0; k < vectors; k++) to[k] = values[k], end[k] = ends[k], sums[k] = filled[k];
        for (int64_t r = 0; r < n; r++) {
            for (k = 0; k < vectors; k++) {
                kx_copy(joined, at, m->piece[k]);
                joined += m->piece[k], at += m->piece[k];
                int64_t length = kx_length(at, m->prefix[k]);
                kx_move(to[k] + 4 * sums[k], at, length, can_shuffle);
                sums[k] += length, at += 4 * length;
                end[k][r] = (int32_t)sums[k];
            }
            kx_copy(joined, at, m->piece[vectors]);
            joined += m->piece[vectors], at += m->piece[vectors];
        }
        for (k = 0; k < vectors; k++) filled[k] = sums[k];
        return at;
    }
    #define KX_CUT(NAME, CAN_SHUFFLE) \
    static inline const uint8_t *NAME( \
        const kx_cuts *m, const uint8_t *at, int64_t n, uint8_t *joined, uint8_t **values, int32_t **ends, \
        int64_t *filled \
    ) { \
        if (m->vectors == 1) return kx_cut_(m, at, n, joined, values, ends, filled, 1, CAN_SHUFFLE); \
        if (m->vectors == 2) return kx_cut_(m, at, n, joined, values, ends, filled, 2, CAN_SHUFFLE); \
        return kx_cut_(m, at, n, joined, values, ends, filled, m->vectors, CAN_SHUFFLE); \
    }
    KX_CUT(kx_cut, 0)
    #if KX_SHUFFLES
    __attribute__((target("ssse3"))) KX_CUT(kx_cut_by_shuffles, 1)
    #else
    #define kx_cut_by_shuffles kx_cut
    #endif
    /* Joins `n` rows to records, from their pieces at `joined` and their vectors in columns. Returns the number of rows
       written: it ends before a row that might write beyond `end`, or that begins at or after element `spare` and so
       might read beyond its column. */
    KX_INLINE int64_t kx_join_(
        const kx_cuts *restrict m, uint8_t **place, const uint8_t *end, const uint8_t *joined, int64_t n,
        const uint8_t **values, const int32_t **offsets, const int64_t *spare, const int64_t vectors,
        const int can_shuffle
    ) {
        uint8_t *at = *place;
        const uint8_t *from[KX_VECTORS];
        const int32_t *begin[KX_VECTORS];
        int64_t last[KX_VECTORS], r, k;
        for (k = 0; k < vectors; k++) from[k] = values[k], begin[k] = offsets[k], last[k] = spare[k];
        for (r = 0; r < n && end - at >= m->most + KX_OVER; r++) {
            uint8_t *to = at;
            for (k = 0; k < vectors; k++) {
                int64_t first = begin[k][r], length = begin[k][r + 1] - first;
                if (first >= last[k]) break;
                kx_copy(to, joined, m->piece[k]);
                joined += m->piece[k], to += m->piece[k];
                if (m->prefix[k] == 1) to[-1] = (uint8_t)(length + 1);
                else kc_move32(to - 4, (const uint8_t *)&(int32_t){(int32_t)length});
                kx_move(to, from[k] + 4 * first, length, can_shuffle);
                to += 4 * length;
            }
            if (k < vectors) break;
            kx_copy(to, joined, m->piece[vectors]);
            joined += m->piece[vectors];
            at = to + m->piece[vectors];
        }
        *place = at;
        return r;
    }
    #define KX_JOIN(NAME, CAN_SHUFFLE) \
    static inline int64_t NAME( \
        const kx_cuts *m, uint8_t **place, const uint8_t *end, const uint8_t *joined, int64_t n, \
        const uint8_t **values, const int32_t **offsets, const int64_t *spare \
    ) { \
        if (m->vectors == 1) return kx_join_(m, place, end, joined, n, values, offsets, spare, 1, CAN_SHUFFLE); \
        if (m->vectors == 2) return kx_join_(m, place, end, joined, n, values, offsets, spare, 2, CAN_SHUFFLE); \
        return kx_join_(m, place, end, joined, n, values, offsets, spare, m->vectors, CAN_SHUFFLE); \
    }
    KX_JOIN(kx_join, 0)
    #if KX_SHUFFLES
    __attribute__((target("ssse3"))) KX_JOIN(kx_join_by_shuffles, 1)
    #else
    #define kx_join_by_shuffles kx_join
    #endif
    """
    enum:
        OVER "KX_OVER"         # Surplus bytes that may be read and written after a record and after its pieces.
        MAX_VARYING "KX_VECTORS"
        LONGEST "KX_LONGEST"   # The most elements of a vector whose length may differ.
        MAX_CHECKS "KX_CHECKS"
    ctypedef struct Cuts "kx_cuts":
        int64_t vectors
        int64_t most
        int64_t piece[5]
        int64_t prefix[4]
        int64_t checks[5]
        int64_t start[16]
        uint64_t mask[16]
        uint64_t value[16]
    int64_t count_cuts "kx_count"(
        const Cuts *m, const uint8_t **place, int64_t n, int64_t *totals) noexcept nogil
    const uint8_t *cut "kx_cut"(
        const Cuts *m, const uint8_t *at, int64_t n, uint8_t *joined, uint8_t **values, int32_t **ends, int64_t *filled
    ) noexcept nogil
    const uint8_t *cut_by_shuffles "kx_cut_by_shuffles"(
        const Cuts *m, const uint8_t *at, int64_t n, uint8_t *joined, uint8_t **values, int32_t **ends, int64_t *filled
    ) noexcept nogil
    int64_t join_by_shuffles "kx_join_by_shuffles"(
        const Cuts *m, uint8_t **place, const uint8_t *end, const uint8_t *joined, int64_t n, const uint8_t **values,
        const int32_t **offsets, const int64_t *spare) noexcept nogil
    int64_t join "kx_join"(
        const Cuts *m, uint8_t **place, const uint8_t *end, const uint8_t *joined, int64_t n, const uint8_t **values,
        const int32_t **offsets, const int64_t *spare) noexcept nogil

cdef enum:
    MAX_JOINED = 256  # The most bytes of a record's joined pieces.

cdef struct Mixed:
    int64_t child                  # the node; -1 while there is none
    uint64_t varying               # the fields that differ in length, a bit for each
    int64_t turns                  # number of runs of mixed records found so far
    int64_t end                    # end of the last run in the message
    int64_t totals[4]              # elements of the last run, for each vector that differs
    int64_t begin                  # begin of the piece that is being learned, within the joined pieces
    const Op* op[4]                # the vectors that differ
    Cuts cuts
    uint8_t same[256]              # for writing: the bytes that all records share, at their positions in the pieces
    Steps steps                    # of the joined pieces; `size` is their total size


cdef inline bint may_vary(const Op* op) noexcept nogil:
    """True if the op is a vector of int32 that may differ in length."""
    return op.code == VECTOR and op.width == 4 and not op.nullable and not op.is_bool


cdef inline bint begin_cuts(Mixed* m, int64_t child) noexcept nogil:
    """Begin to learn the layout of the node `child`; a record's pieces are one row. False if there is no room."""
    m.child, m.begin, m.cuts.vectors, m.cuts.most, m.cuts.checks[0] = child, 0, 0, 0, 0
    m.steps.size = m.steps.count = m.steps.counters = 0
    if find_counter(&m.steps, child) < 0:
        return False
    m.steps.counter[0].each = 1
    return True


cdef inline bint add_cut(Mixed* m, const Op* op, int64_t prefix) noexcept nogil:
    """End the current piece after a vector's length of `prefix` bytes. False if there are too many pieces."""
    cdef int64_t k = m.cuts.vectors
    if k == MAX_VARYING or prefix not in (1, 4):
        return False
    m.steps.size += prefix
    m.op[k], m.cuts.prefix[k], m.cuts.piece[k] = op, prefix, m.steps.size - m.begin
    m.cuts.checks[k + 1] = m.cuts.checks[k]
    m.cuts.vectors = k + 1
    m.begin = m.steps.size
    return True


cdef inline void end_cuts(Mixed* m) noexcept nogil:
    """End the last piece."""
    m.cuts.piece[m.cuts.vectors] = m.steps.size - m.begin
    m.cuts.most = m.steps.size + m.cuts.vectors * 4 * LONGEST


cdef inline Step* add_values(Mixed* m, const Op* op, int64_t length) noexcept nogil:
    """Add the elements of a vector that has the same length in every record; NULL if there is no room for the step."""
    cdef Step* step = add_step(&m.steps, VALUES, op, 0, 0)
    cdef int64_t items = find_counter(&m.steps, elements_key(op.column + 1))
    if step == NULL or items < 0:
        return NULL
    step.items, step.item, step.length = <int32_t>items, 0, <int32_t>length
    m.steps.counter[items].each = length
    m.steps.size += length * op.width
    return step
