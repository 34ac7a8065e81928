"""Copies two, three or four adjacent fields of a record, sixteen bytes, with one load or store for each record.

Two adjacent fields of four bytes are copied in the same way. Sixteen bytes need a processor that shuffles bytes (SSSE3,
detected at run time). The shuffle swaps each field to the host's byte order, and puts fields of eight bytes last. Then
records are transposed to columns, or columns to records.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kcore._ext.columns.program cimport can_shuffle, gather, gather4, scatter, scatter4
from kcore._ext.columns.steps cimport DUO, FIELD, PAIR, QUAD, TRIO, Step, Steps

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <tmmintrin.h>
    #define KF_FAST __attribute__((target("ssse3"), unused)) static void
    #define KF_LOAD(p) _mm_loadu_si128((const __m128i *)(p))
    #define KF_EIGHT(p) _mm_loadl_epi64((const __m128i *)(p))
    #define KF_STORE(p, v) _mm_storeu_si128((__m128i *)(p), v)
    #define KF_FIELDS(p) _mm_shuffle_epi8(KF_LOAD(p), order)
    /* Fields e and f of four bytes, g of eight, of n records (n a multiple of 4). */
    KF_FAST kc_gather_trio(
        uint8_t *e, uint8_t *f, uint8_t *g, const uint8_t *from, int64_t step, int64_t n, const uint8_t *mask
    ) {
        const __m128i order = KF_LOAD(mask);
        for (int64_t k = 0; k < 4 * n; k += 16, from += 4 * step) {
            __m128i a = KF_FIELDS(from), b = KF_FIELDS(from + step);
            __m128i c = KF_FIELDS(from + 2 * step), d = KF_FIELDS(from + 3 * step);
            __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
            KF_STORE(e + k, _mm_unpacklo_epi64(ab, cd));
            KF_STORE(f + k, _mm_unpackhi_epi64(ab, cd));
            KF_STORE(g + 2 * k, _mm_unpackhi_epi64(a, b));
            KF_STORE(g + 2 * k + 16, _mm_unpackhi_epi64(c, d));
        }
    }
    KF_FAST kc_scatter_trio(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, const uint8_t *g, int64_t n, const uint8_t *mask
    ) {
        const __m128i order = KF_LOAD(mask);
        for (int64_t k = 0; k < 4 * n; k += 16, to += 4 * step) {
            __m128i es = KF_LOAD(e + k), fs = KF_LOAD(f + k), gs = KF_LOAD(g + 2 * k), hs = KF_LOAD(g + 2 * k + 16);
            __m128i ab = _mm_unpacklo_epi32(es, fs), cd = _mm_unpackhi_epi32(es, fs);
            KF_STORE(to, _mm_shuffle_epi8(_mm_unpacklo_epi64(ab, gs), order));
            KF_STORE(to + step, _mm_shuffle_epi8(_mm_unpackhi_epi64(ab, gs), order));
            KF_STORE(to + 2 * step, _mm_shuffle_epi8(_mm_unpacklo_epi64(cd, hs), order));
            KF_STORE(to + 3 * step, _mm_shuffle_epi8(_mm_unpackhi_epi64(cd, hs), order));
        }
    }
    /* Fields e and f of eight bytes, of n records (n even). */
    KF_FAST kc_gather_pair(
        uint8_t *e, uint8_t *f, const uint8_t *from, int64_t step, int64_t n, const uint8_t *mask
    ) {
        const __m128i order = KF_LOAD(mask);
        for (int64_t k = 0; k < 8 * n; k += 16, from += 2 * step) {
            __m128i a = KF_FIELDS(from), b = KF_FIELDS(from + step);
            KF_STORE(e + k, _mm_unpacklo_epi64(a, b));
            KF_STORE(f + k, _mm_unpackhi_epi64(a, b));
        }
    }
    KF_FAST kc_scatter_pair(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t n, const uint8_t *mask
    ) {
        const __m128i order = KF_LOAD(mask);
        for (int64_t k = 0; k < 8 * n; k += 16, to += 2 * step) {
            __m128i a = KF_LOAD(e + k), b = KF_LOAD(f + k);
            KF_STORE(to, _mm_shuffle_epi8(_mm_unpacklo_epi64(a, b), order));
            KF_STORE(to + step, _mm_shuffle_epi8(_mm_unpackhi_epi64(a, b), order));
        }
    }
    /* Fields e and f of eight bytes, of n records that have `each` rows of the fields' node. */
    KF_FAST kc_gather_pair_apart(
        uint8_t *e, uint8_t *f, int64_t each, const uint8_t *from, int64_t step, int64_t n, const uint8_t *mask
    ) {
        const __m128i order = KF_LOAD(mask);
        for (; n > 0; n--, e += 8 * each, f += 8 * each, from += step) {
            __m128i both = KF_FIELDS(from);
            _mm_storel_epi64((__m128i *)e, both);
            _mm_storeh_pd((double *)f, _mm_castsi128_pd(both));
        }
    }
    KF_FAST kc_scatter_pair_apart(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t each, int64_t n, const uint8_t *mask
    ) {
        const __m128i order = KF_LOAD(mask);
        for (; n > 0; n--, e += 8 * each, f += 8 * each, to += step)
            KF_STORE(to, _mm_shuffle_epi8(_mm_unpacklo_epi64(KF_EIGHT(e), KF_EIGHT(f)), order));
    }
    /* Fields e and f of four bytes, of n records (n a multiple of 4). */
    KF_FAST kc_scatter_duos(uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t n) {
        const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
        for (int64_t k = 0; k < 4 * n; k += 16, to += 4 * step) {
            __m128i es = KF_LOAD(e + k), fs = KF_LOAD(f + k);
            __m128i ab = _mm_shuffle_epi8(_mm_unpacklo_epi32(es, fs), swap);
            __m128i cd = _mm_shuffle_epi8(_mm_unpackhi_epi32(es, fs), swap);
            _mm_storel_epi64((__m128i *)to, ab);
            _mm_storel_epi64((__m128i *)(to + step), _mm_unpackhi_epi64(ab, ab));
            _mm_storel_epi64((__m128i *)(to + 2 * step), cd);
            _mm_storel_epi64((__m128i *)(to + 3 * step), _mm_unpackhi_epi64(cd, cd));
        }
    }
    KF_FAST kc_gather_duos(uint8_t *e, uint8_t *f, const uint8_t *from, int64_t step, int64_t n) {
        const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3);
        for (int64_t k = 0; k < 4 * n; k += 16, from += 4 * step) {
            __m128i a = KF_EIGHT(from), b = KF_EIGHT(from + step);
            __m128i c = KF_EIGHT(from + 2 * step), d = KF_EIGHT(from + 3 * step);
            __m128i ab = _mm_shuffle_epi8(_mm_unpacklo_epi64(a, b), swap);
            __m128i cd = _mm_shuffle_epi8(_mm_unpacklo_epi64(c, d), swap);
            KF_STORE(e + k, _mm_unpacklo_epi64(ab, cd));
            KF_STORE(f + k, _mm_unpackhi_epi64(ab, cd));
        }
    }
    #else  /* These processors fuse no sixteen bytes. */
    #define kc_gather_duos kc_gather_duo
    #define kc_scatter_duos kc_scatter_duo
    #define kc_gather_trio(e, f, g, from, step, n, mask)
    #define kc_scatter_trio(to, step, e, f, g, n, mask)
    #define kc_gather_pair(e, f, from, step, n, mask)
    #define kc_scatter_pair(to, step, e, f, n, mask)
    #define kc_gather_pair_apart(e, f, each, from, step, n, mask)
    #define kc_scatter_pair_apart(to, step, e, f, each, n, mask)
    #endif
    /* Fields e and f of four bytes, of n records. */
    static inline void kc_gather_duo(uint8_t *e, uint8_t *f, const uint8_t *from, int64_t step, int64_t n) {
        for (int64_t k = 0; k < n; k++, from += step) {
            uint64_t both = kc_swap64(kc_load64(from));
            uint32_t first = (uint32_t)(both >> 32), second = (uint32_t)both;
            memcpy(e + 4 * k, &first, 4); memcpy(f + 4 * k, &second, 4);
        }
    }
    static inline void kc_scatter_duo(uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t n) {
        for (int64_t k = 0; k < n; k++, to += step) {
            uint32_t first, second;
            memcpy(&first, e + 4 * k, 4); memcpy(&second, f + 4 * k, 4);
            uint64_t both = kc_swap64((uint64_t)first << 32 | second);
            memcpy(to, &both, 8);
        }
    }
    """
    void gather_trio "kc_gather_trio"(
        uint8_t *e, uint8_t *f, uint8_t *g, const uint8_t *source, int64_t step, int64_t n, const uint8_t *mask
    ) noexcept nogil
    void scatter_trio "kc_scatter_trio"(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, const uint8_t *g, int64_t n, const uint8_t *mask
    ) noexcept nogil
    void gather_pair "kc_gather_pair"(
        uint8_t *e, uint8_t *f, const uint8_t *source, int64_t step, int64_t n, const uint8_t *mask) noexcept nogil
    void scatter_pair "kc_scatter_pair"(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t n, const uint8_t *mask) noexcept nogil
    void gather_pair_apart "kc_gather_pair_apart"(
        uint8_t *e, uint8_t *f, int64_t each, const uint8_t *source, int64_t step, int64_t n, const uint8_t *mask
    ) noexcept nogil
    void scatter_pair_apart "kc_scatter_pair_apart"(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t each, int64_t n, const uint8_t *mask
    ) noexcept nogil
    void gather_duo "kc_gather_duo"(
        uint8_t *e, uint8_t *f, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void gather_duos "kc_gather_duos"(
        uint8_t *e, uint8_t *f, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void scatter_duo "kc_scatter_duo"(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t n) noexcept nogil
    void scatter_duos "kc_scatter_duos"(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, int64_t n) noexcept nogil


cdef inline int64_t fields_of(int64_t kind) noexcept nogil:
    """The number of fields of a fused step."""
    return 4 if kind == QUAD else 3 if kind == TRIO else 2


cdef inline void fuse(Steps* steps, bint to_record) noexcept nogil:
    """Fuse adjacent fields of sixteen or eight bytes in total into one step. If a record has several rows of a node,
    fuse only pairs of 8-byte fields.
    """
    cdef int64_t k = 0, kind
    while k < steps.count:
        kind = fused_kind(steps, &steps.step[k], steps.count - k)
        if kind != FIELD:
            join(&steps.step[k], kind, to_record)
        k += 1 if kind == FIELD else fields_of(kind)


cdef inline int64_t fused_kind(const Steps* steps, const Step* step, int64_t left) noexcept nogil:
    """The kind of the step that fuses this step and the next ones; FIELD if they cannot be fused."""
    cdef int64_t k, size = 0, found = FIELD, each = steps.counter[step.rows].each
    for k in range(min(left, <int64_t>4)):
        if step[k].kind != FIELD or step[k].offset != step.offset + size or step[k].rows != step.rows:
            return found
        if step[k].op.width != 8 and (step[k].op.width != 4 or each != 1) or step[k].row != step.row:
            return found
        size += step[k].op.width
        if size == 16 and can_shuffle:
            return QUAD if k == 3 else TRIO if k == 2 else PAIR
        if size == 8 and k == 1:
            found = DUO
    return found


cdef inline void join(Step* step, int64_t kind, bint to_record) noexcept nogil:
    """Make this step a fused step of `kind` with the next ones, with a field of eight bytes last, and set its shuffle.
    `to_record`: for writing records; otherwise for reading them.
    """
    cdef int64_t k, j, at = 0, begin = step.offset
    cdef Step wide
    for k in range(2 if kind == TRIO else 0):
        if step[k].op.width == 8:
            wide = step[k]
            step[k] = step[k + 1]
            step[k + 1] = wide
    step.kind, step.length = <int32_t>kind, <int32_t>begin
    for k in range(fields_of(kind)):
        for j in range(step[k].offset - begin + step[k].op.width - 1, step[k].offset - begin - 1, -1):
            step.mask[j if to_record else at] = <uint8_t>(at if to_record else j)
            at += 1


cdef inline void gather_fused(
    uint8_t** columns, const Step* step, int64_t each, const uint8_t* source, int64_t size, int64_t row, int64_t count
) noexcept nogil:
    """Copy the step's fields from `count` records, the first at `source`, to the columns from `row` on.

    A record has `each` rows of the node. The last records, if their number is not a multiple of 4, go field by field.
    """
    cdef uint8_t* to[4]
    cdef int64_t k, width, even = count & ~<int64_t>3, fields = fields_of(step.kind)
    for k in range(fields):
        to[k] = columns[step[k].op.column] + row * step[k].op.width
    if each != 1:
        gather_pair_apart(to[0], to[1], each, source + step.length, size, count, step.mask)
        return
    if count > even:
        for k in range(fields):
            width = step[k].op.width
            gather(to[k] + even * width, source + even * size + step[k].offset, size, count - even, width, False)
    source += step.length
    if step.kind == QUAD:
        gather4(to[0], to[1], to[2], to[3], source, size, even)
    elif step.kind == TRIO:
        gather_trio(to[0], to[1], to[2], source, size, even, step.mask)
    elif step.kind == DUO and can_shuffle:
        gather_duos(to[0], to[1], source, size, even)
    elif step.kind == DUO:
        gather_duo(to[0], to[1], source, size, even)
    else:
        gather_pair(to[0], to[1], source, size, even, step.mask)


cdef inline void scatter_fused(
    uint8_t* target, int64_t size, const uint8_t** columns, const Step* step, int64_t each, int64_t row, int64_t count
) noexcept nogil:
    """Copy the step's fields from the columns to `count` records; arguments as in `gather_fused`."""
    cdef const uint8_t* source[4]
    cdef int64_t k, width, even = count & ~<int64_t>3, fields = fields_of(step.kind)
    for k in range(fields):
        source[k] = columns[step[k].op.column] + row * step[k].op.width
    if each != 1:
        scatter_pair_apart(target + step.length, size, source[0], source[1], each, count, step.mask)
        return
    if count > even:
        for k in range(fields):
            width = step[k].op.width
            scatter(target + even * size + step[k].offset, size, source[k] + even * width, count - even, width, False)
    target += step.length
    if step.kind == QUAD:
        scatter4(target, size, source[0], source[1], source[2], source[3], even)
    elif step.kind == TRIO:
        scatter_trio(target, size, source[0], source[1], source[2], even, step.mask)
    elif step.kind == DUO and can_shuffle:
        scatter_duos(target, size, source[0], source[1], even)
    elif step.kind == DUO:
        scatter_duo(target, size, source[0], source[1], even)
    else:
        scatter_pair(target, size, source[0], source[1], even, step.mask)
