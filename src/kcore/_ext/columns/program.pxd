"""Shared by the column kernels: the program that `wire/layout.py` writes, and loads and stores of both byte orders.

A program is three tables of int64, with a row for each struct (Node), each field (Op) and each column (Extent).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum Code:  # The encoding of a field.
    FIXED = 0    # `width` bytes; swapped to the host's order if the width is 2, 4 or 8
    BOOL = 1     # a byte, stored as 0 or 1
    VECTOR = 2   # a length and that many elements of `width` bytes: strings, bytes, arrays of numbers
    ROWS = 3     # a count and that many structs
    STRUCT = 4   # one struct, after a marker byte if it is nullable

cdef enum Prefix:  # The encoding of a length.
    INT16 = 0
    INT32 = 1
    VARINT = 2   # length + 1

cdef enum Limits:
    MAX_WINDOWS = 32
    MAX_VECTORS = 12
    BLOCK = 64       # Records compared in one step.
    BLOCK_BYTES = 6144  # Bytes of records that are copied field by field in one step, which stay in the L1 cache.
    OTHERS = 32      # Flat records of different layouts that are copied in one step; at most BLOCK.
    FEW = 6          # An array of fewer structs is not searched for records of one layout.
    MIN_RUN = 8      # The least number of records of one layout that are copied together.
    MAX_TEXT = 32767  # Kafka's limit of a string in bytes, compact or not.

cdef struct Op:
    int64_t code
    int64_t width
    int64_t prefix
    int64_t nullable
    int64_t is_text
    int64_t is_bool   # 1 if a VECTOR's elements are bools
    # The field's first column. The columns are, for FIXED: values; VECTOR: offsets, values[, valid][, begins]; ROWS:
    # offsets[, valid]; a nullable STRUCT: offsets.
    int64_t column
    int64_t child     # ROWS, STRUCT: index of the struct's node
    int64_t tag       # tag of a tagged field
    int64_t fallback  # the default's bytes on the wire, first byte first; VECTOR, ROWS, STRUCT: 1 for null
    int64_t begins    # the column of row begins, for a VECTOR that stays in the message; -1 for other fields
    int64_t together  # bytes of this and the next adjacent fields that are FIXED or BOOL; 0 for other fields
    int64_t number    # number of these adjacent fields

cdef struct Node:
    int64_t op_begin    # the first op of the fields that are not tagged
    int64_t op_end      # the end of these; the ops of tagged fields follow, by ascending tag
    int64_t tag_end
    int64_t flexible    # 1 if the struct ends with tagged fields
    int64_t tag_column  # first column of the unknown tags: row, tag, offsets, bytes
    int64_t min_size    # the fewest bytes that a row takes
    int64_t flat        # 1 if it has only FIXED, BOOL and few VECTOR fields, all not nullable, and no tagged fields

cdef struct Extent:  # The length of a column.
    int64_t is_total  # 1 if a column's total is the length, 0 if a node's number of rows is
    int64_t counted   # index of that column or node
    int64_t more      # 1 for offsets, which have one more value
    int64_t width     # bytes of a value
    int64_t owner     # the op of the column's tagged field; -1 for none

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define KC_BIG 1
    #else
    #define KC_BIG 0
    #endif
    static inline uint16_t kc_swap16(uint16_t v) { return KC_BIG ? v : (uint16_t)(v << 8 | v >> 8); }
    static inline uint32_t kc_swap32(uint32_t v) {
        return KC_BIG ? v : v << 24 | (v & 0xff00u) << 8 | (v >> 8 & 0xff00u) | v >> 24;
    }
    static inline uint64_t kc_swap64(uint64_t v) {
        return KC_BIG ? v : (uint64_t)kc_swap32((uint32_t)v) << 32 | kc_swap32((uint32_t)(v >> 32));
    }
    static inline uint64_t kc_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
    static inline void kc_move16(uint8_t *to, const uint8_t *from) {
        uint16_t v; memcpy(&v, from, 2); v = kc_swap16(v); memcpy(to, &v, 2);
    }
    static inline void kc_move32(uint8_t *to, const uint8_t *from) {
        uint32_t v; memcpy(&v, from, 4); v = kc_swap32(v); memcpy(to, &v, 4);
    }
    static inline void kc_move64(uint8_t *to, const uint8_t *from) {
        uint64_t v; memcpy(&v, from, 8); v = kc_swap64(v); memcpy(to, &v, 8);
    }
    static inline void kc_move32x2(uint8_t *to, const uint8_t *from) {  /* two int32 by one 8-byte swap */
        uint64_t v; memcpy(&v, from, 8); v = kc_swap64(v); v = KC_BIG ? v : v << 32 | v >> 32; memcpy(to, &v, 8);
    }
    static inline void kc_move32x3(uint8_t *to, const uint8_t *from) {
        kc_move32x2(to, from); kc_move32(to + 8, from + 8);
    }
    static inline void kc_move32x4(uint8_t *to, const uint8_t *from) {
        kc_move32x2(to, from); kc_move32x2(to + 8, from + 8);
    }
    static inline void kc_move8(uint8_t *to, const uint8_t *from) { *to = *from; }
    static inline void kc_move_bool(uint8_t *to, const uint8_t *from) { *to = *from != 0; }
    static inline void kc_move128(uint8_t *to, const uint8_t *from) { memcpy(to, from, 16); }
    static inline void kc_move_one(uint8_t *to, const uint8_t *from, int64_t width, int is_bool) {
        if (width == 4) kc_move32(to, from);
        else if (width == 8) kc_move64(to, from);
        else if (is_bool) kc_move_bool(to, from);
        else if (width == 2) kc_move16(to, from);
        else if (width == 1) kc_move8(to, from);
        else kc_move128(to, from);
    }
    /* MOVE for each of `n` records, four in each round, so that the chain of additions is short. */
    #define KC_EACH(NAME, MOVE) \
    static inline void kc_each_##NAME( \
        uint8_t *to, int64_t step, const uint8_t *from, int64_t from_step, int64_t n \
    ) { \
        for (; n >= 4; n -= 4, to += 4 * step, from += 4 * from_step) { \
            MOVE(to, from); \
            MOVE(to + step, from + from_step); \
            MOVE(to + 2 * step, from + 2 * from_step); \
            MOVE(to + 3 * step, from + 3 * from_step); \
        } \
        for (; n > 0; n--, to += step, from += from_step) MOVE(to, from); \
    }
    KC_EACH(8, kc_move8)
    KC_EACH(bool, kc_move_bool)
    KC_EACH(16, kc_move16)
    KC_EACH(32, kc_move32)
    KC_EACH(32x2, kc_move32x2)
    KC_EACH(32x3, kc_move32x3)
    KC_EACH(64, kc_move64)
    KC_EACH(128, kc_move128)
    static inline void kc_spread(
        uint8_t *to, int64_t step, const uint8_t *from, int64_t from_step, int64_t n, int64_t width, int is_bool
    ) {
        if (is_bool) kc_each_bool(to, step, from, from_step, n);
        else if (width == 4) kc_each_32(to, step, from, from_step, n);
        else if (width == 1) kc_each_8(to, step, from, from_step, n);
        else if (width == 8) kc_each_64(to, step, from, from_step, n);
        else if (width == 2) kc_each_16(to, step, from, from_step, n);
        else kc_each_128(to, step, from, from_step, n);
    }
    /* Copies values between a column and records: value k is at record + places[k]. */
    #define KC_AT(MOVE, WIDTH) for (int64_t k = 0; k < n; k++) \
        if (gather) MOVE(column + k * WIDTH, record + places[k]); else MOVE(record + places[k], column + k * WIDTH)
    static inline void kc_at(
        int gather, uint8_t *column, uint8_t *record, const int32_t *places, int64_t n, int64_t width, int is_bool
    ) {
        if (is_bool) KC_AT(kc_move_bool, 1);
        else if (width == 4) KC_AT(kc_move32, 4);
        else if (width == 1) KC_AT(kc_move8, 1);
        else if (width == 8) KC_AT(kc_move64, 8);
        else if (width == 2) KC_AT(kc_move16, 2);
        else KC_AT(kc_move128, 16);
    }
    static inline void kc_scatter(
        uint8_t *to, int64_t step, const uint8_t *column, int64_t n, int64_t width, int is_bool
    ) {
        if (is_bool) kc_each_bool(to, step, column, 1, n);
        else if (width == 4) kc_each_32(to, step, column, 4, n);
        else if (width == 1) kc_each_8(to, step, column, 1, n);
        else if (width == 8) kc_each_64(to, step, column, 8, n);
        else if (width == 2) kc_each_16(to, step, column, 2, n);
        else kc_each_128(to, step, column, 16, n);
    }
    /* If the processor can shuffle bytes (SSSE3, detected at run time), fewer instructions copy one or three int32 of
       each record, or four adjacent int32 fields. A load may read 4 bytes beyond three int32, so the last record is
       loaded in another way. */
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <tmmintrin.h>
    #define KC_FAST __attribute__((target("ssse3"), unused)) static void
    #define KC_SSSE3 __builtin_cpu_supports("ssse3")
    #define KC_SWAP _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)
    #define KC_LOAD(p) _mm_loadu_si128((const __m128i *)(p))
    #define KC_STORE(p, v) _mm_storeu_si128((__m128i *)(p), _mm_shuffle_epi8(v, swap))
    static inline __m128i kc_four(const uint8_t *p) { int32_t v; memcpy(&v, p, 4); return _mm_cvtsi32_si128(v); }
    KC_FAST kc_gather1(uint8_t *to, const uint8_t *from, int64_t step, int64_t n) {
        const __m128i swap = KC_SWAP;
        const uint8_t at = (uint8_t)step, two[16] = {3, 2, 1, 0, at + 3, at + 2, at + 1, at};
        const __m128i both = KC_LOAD(two);
        for (; n > 8 && step <= 12; n -= 4, to += 16, from += 4 * step) {  /* One load reads two records' values. */
            __m128i ab = _mm_shuffle_epi8(KC_LOAD(from), both);
            __m128i cd = _mm_shuffle_epi8(KC_LOAD(from + 2 * step), both);
            _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi64(ab, cd));
        }
        for (; n >= 4; n -= 4, to += 16, from += 4 * step) {
            __m128i ab = _mm_unpacklo_epi32(kc_four(from), kc_four(from + step));
            __m128i cd = _mm_unpacklo_epi32(kc_four(from + 2 * step), kc_four(from + 3 * step));
            _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(_mm_unpacklo_epi64(ab, cd), swap));
        }
        kc_each_32(to, 4, from, step, n);
    }
    KC_FAST kc_gather3(uint8_t *to, const uint8_t *from, int64_t step, int64_t n) {
        const __m128i swap = KC_SWAP;
        for (; n > 4; n -= 4, to += 48, from += 4 * step) {
            KC_STORE(to, KC_LOAD(from));
            KC_STORE(to + 12, KC_LOAD(from + step));
            KC_STORE(to + 24, KC_LOAD(from + 2 * step));
            KC_STORE(to + 36, KC_LOAD(from + 3 * step));
        }
        for (; n > 1; n--, to += 12, from += step) KC_STORE(to, KC_LOAD(from));
        if (n) kc_move32x3(to, from);
    }
    KC_FAST kc_scatter3(uint8_t *to, int64_t step, const uint8_t *from, int64_t n) {
        const __m128i swap = KC_SWAP;
        for (int64_t k = 0; k < n - 1; k++, to += step, from += 12) {
            __m128i v = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)from), swap);
            int32_t last = _mm_cvtsi128_si32(_mm_srli_si128(v, 8));
            _mm_storel_epi64((__m128i *)to, v);
            memcpy(to + 8, &last, 4);
        }
        kc_move32x3(to, from);
    }
    #define KC_TRANSPOSE(a, b, c, d) { \
        __m128i ab = _mm_unpacklo_epi32(a, b), AB = _mm_unpackhi_epi32(a, b); \
        __m128i cd = _mm_unpacklo_epi32(c, d), CD = _mm_unpackhi_epi32(c, d); \
        a = _mm_unpacklo_epi64(ab, cd), b = _mm_unpackhi_epi64(ab, cd); \
        c = _mm_unpacklo_epi64(AB, CD), d = _mm_unpackhi_epi64(AB, CD); \
    }
    /* Copies between four adjacent int32 fields of n records (n a multiple of 4) and their four columns. */
    KC_FAST kc_gather4(
        uint8_t *e, uint8_t *f, uint8_t *g, uint8_t *h, const uint8_t *from, int64_t step, int64_t n
    ) {
        const __m128i swap = KC_SWAP;
        for (int64_t k = 0; k < 4 * n; k += 16, from += 4 * step) {
            __m128i a = KC_LOAD(from), b = KC_LOAD(from + step);
            __m128i c = KC_LOAD(from + 2 * step), d = KC_LOAD(from + 3 * step);
            KC_TRANSPOSE(a, b, c, d)
            KC_STORE(e + k, a); KC_STORE(f + k, b); KC_STORE(g + k, c); KC_STORE(h + k, d);
        }
    }
    KC_FAST kc_scatter4(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, const uint8_t *g, const uint8_t *h, int64_t n
    ) {
        const __m128i swap = KC_SWAP;
        for (int64_t k = 0; k < 4 * n; k += 16, to += 4 * step) {
            __m128i a = KC_LOAD(e + k), b = KC_LOAD(f + k), c = KC_LOAD(g + k), d = KC_LOAD(h + k);
            KC_TRANSPOSE(a, b, c, d)
            KC_STORE(to, a); KC_STORE(to + step, b); KC_STORE(to + 2 * step, c); KC_STORE(to + 3 * step, d);
        }
    }
    #else
    #define KC_SSSE3 0
    #define kc_gather1(to, from, step, n) kc_each_32(to, 4, from, step, n)
    #define kc_gather3(to, from, step, n) kc_each_32x3(to, 12, from, step, n)
    #define kc_scatter3(to, step, from, n) kc_each_32x3(to, step, from, 12, n)
    #define kc_gather4(e, f, g, h, from, step, n)
    #define kc_scatter4(to, step, e, f, g, h, n)
    #endif
    static inline void kc_gather(
        uint8_t *column, const uint8_t *from, int64_t step, int64_t n, int64_t width, int is_bool
    ) {
        if (is_bool) kc_each_bool(column, 1, from, step, n);
        else if (width == 4 && step <= 12 && KC_SSSE3) kc_gather1(column, from, step, n);
        else if (width == 4) kc_each_32(column, 4, from, step, n);
        else if (width == 1) kc_each_8(column, 1, from, step, n);
        else if (width == 8) kc_each_64(column, 8, from, step, n);
        else if (width == 2) kc_each_16(column, 2, from, step, n);
        else kc_each_128(column, 16, from, step, n);
    }
    static inline void kc_ends(int32_t *ends, int32_t end, int32_t length, int64_t n) {
        int32_t next[4] = {end + length, end + 2 * length, end + 3 * length, end + 4 * length};
        for (; n >= 4; n -= 4, ends += 4) {
            for (int k = 0; k < 4; k++) { ends[k] = next[k]; next[k] += 4 * length; }
        }
        for (int k = 0; k < n; k++) ends[k] = next[k];
    }
    static inline void kc_ends_apart(int32_t *ends, int64_t step, int32_t end, int32_t length, int64_t n) {
        for (; n > 0; n--, ends += step, end += length) *ends = end;
    }
    static inline uint64_t kc_differ(const uint8_t *at, int64_t step, uint64_t mask, uint64_t value, int64_t n) {
        uint64_t a = 0, b = 0;  /* The bits that differ from `value`. Two variables make the chain of ORs shorter. */
        if (!(value & mask)) {  /* All expected bits are zero, mostly those of empty tags. */
            for (; n >= 4; n -= 4, at += 4 * step) {
                a |= kc_load64(at) | kc_load64(at + step);
                b |= kc_load64(at + 2 * step) | kc_load64(at + 3 * step);
            }
            for (; n > 0; n--, at += step) a |= kc_load64(at);
            return (a | b) & mask;
        }
        for (; n >= 4; n -= 4, at += 4 * step) {
            a |= (kc_load64(at) ^ value) | (kc_load64(at + step) ^ value);
            b |= (kc_load64(at + 2 * step) ^ value) | (kc_load64(at + 3 * step) ^ value);
        }
        for (; n > 0; n--, at += step) a |= kc_load64(at) ^ value;
        return (a | b) & mask;
    }
    static inline void kc_repeat(uint8_t *to, int64_t step, const uint8_t *value, int64_t width, int64_t n) {
        uint32_t word; uint64_t wide[2];  /* The first two cases are dense, so compilers make them vector stores. */
        memcpy(&word, value, 4); memcpy(wide, value, 16);
        if (width == 8 && step == 8) for (int64_t k = 0; k < n; k++) memcpy(to + 8 * k, wide, 8);
        else if (width == 4 && step == 4) for (int64_t k = 0; k < n; k++) memcpy(to + 4 * k, &word, 4);
        else if (width == 16) for (int64_t k = 0; k < n; k++) memcpy(to + step * k, wide, 16);
        else if (width == 8) for (int64_t k = 0; k < n; k++) memcpy(to + step * k, wide, 8);
        else if (width == 4) for (int64_t k = 0; k < n; k++) memcpy(to + step * k, &word, 4);
        else if (width == 2) for (int64_t k = 0; k < n; k++) memcpy(to + step * k, value, 2);
        else for (int64_t k = 0; k < n; k++) to[step * k] = value[0];
    }
    /* Clears the flag of each value that differs from `value`, which has 16 bytes. */
    #define KC_MARK(WIDTH) { \
        for (int64_t k = 0; k < n; k++) flags[k] &= memcmp(column + k * WIDTH, value, WIDTH) == 0; \
    }
    static inline void kc_mark_equal(
        uint8_t *flags, const uint8_t *column, const uint8_t *value, int64_t width, int64_t n
    ) {
        if (width == 1) KC_MARK(1)
        else if (width == 2) KC_MARK(2)
        else if (width == 4) KC_MARK(4)
        else if (width == 8) KC_MARK(8)
        else KC_MARK(16)
    }
    static inline int kc_all_are(const uint8_t *column, const uint8_t *value, int64_t width, int64_t n) {
        uint64_t all[2], different = 0;  /* `value` repeated to 16 bytes, with which whole words are compared first. */
        int64_t k, bytes = n * width;
        for (k = 0; k < 16; k += width) memcpy((uint8_t *)all + k, value, width);
        for (k = 0; k + 16 <= bytes; k += 16)
            different |= (kc_load64(column + k) ^ all[0]) | (kc_load64(column + k + 8) ^ all[1]);
        return different == 0 && memcmp(column + k, all, bytes - k) == 0;
    }
    static inline void kc_put(uint8_t *to, int64_t step, uint8_t byte, int64_t n) {
        for (; n >= 4; n -= 4, to += 4 * step) to[0] = to[step] = to[2 * step] = to[3 * step] = byte;
        for (; n > 0; n--, to += step) *to = byte;
    }
    """
    uint64_t load64 "kc_load64"(const uint8_t *source) noexcept nogil
    void move16 "kc_move16"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move32 "kc_move32"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move64 "kc_move64"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move_one "kc_move_one"(uint8_t *target, const uint8_t *source, int64_t width, bint is_bool) noexcept nogil
    void each_32 "kc_each_32"(
        uint8_t *to, int64_t step, const uint8_t *source, int64_t source_step, int64_t n) noexcept nogil
    void each_32x2 "kc_each_32x2"(
        uint8_t *to, int64_t step, const uint8_t *source, int64_t source_step, int64_t n) noexcept nogil
    void each_32x3 "kc_each_32x3"(
        uint8_t *to, int64_t step, const uint8_t *source, int64_t source_step, int64_t n) noexcept nogil
    void move_at "kc_at"(
        bint is_gather, uint8_t *column, uint8_t *record, const int32_t *places, int64_t n, int64_t width, bint is_bool
    ) noexcept nogil
    void gather "kc_gather"(
        uint8_t *column, const uint8_t *source, int64_t step, int64_t n, int64_t width, bint is_bool) noexcept nogil
    void spread "kc_spread"(
        uint8_t *to, int64_t step, const uint8_t *source, int64_t source_step, int64_t n, int64_t width, bint is_bool
    ) noexcept nogil
    void scatter "kc_scatter"(
        uint8_t *to, int64_t step, const uint8_t *column, int64_t n, int64_t width, bint is_bool) noexcept nogil
    bint can_shuffle "KC_SSSE3"
    void gather3 "kc_gather3"(uint8_t *to, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void scatter3 "kc_scatter3"(uint8_t *to, int64_t step, const uint8_t *source, int64_t n) noexcept nogil
    void gather4 "kc_gather4"(
        uint8_t *e, uint8_t *f, uint8_t *g, uint8_t *h, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void scatter4 "kc_scatter4"(
        uint8_t *to, int64_t step, const uint8_t *e, const uint8_t *f, const uint8_t *g, const uint8_t *h, int64_t n
    ) noexcept nogil
    void move32x2 "kc_move32x2"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move32x3 "kc_move32x3"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move32x4 "kc_move32x4"(uint8_t *target, const uint8_t *source) noexcept nogil
    void put_ends "kc_ends"(int32_t *ends, int32_t end, int32_t length, int64_t n) noexcept nogil
    void put_ends_apart "kc_ends_apart"(
        int32_t *ends, int64_t step, int32_t end, int32_t length, int64_t n) noexcept nogil
    void repeat "kc_repeat"(
        uint8_t *to, int64_t step, const uint8_t *value, int64_t width, int64_t n) noexcept nogil  # `value`: 16 bytes
    void mark_equal "kc_mark_equal"(
        uint8_t *flags, const uint8_t *column, const uint8_t *value, int64_t width, int64_t n) noexcept nogil
    bint all_are "kc_all_are"(
        const uint8_t *column, const uint8_t *value, int64_t width, int64_t n) noexcept nogil
    void put_bytes "kc_put"(uint8_t *to, int64_t step, uint8_t byte, int64_t n) noexcept nogil
    uint64_t differ "kc_differ"(
        const uint8_t *at, int64_t step, uint64_t mask, uint64_t value, int64_t n) noexcept nogil


cdef inline void move(
    uint8_t* target, const uint8_t* source, int64_t count, int64_t width, bint is_bool
) noexcept nogil:
    """Copy `count` values, swapped between the wire's and the host's byte order."""
    cdef int64_t k
    if is_bool:
        for k in range(count):
            target[k] = source[k] != 0
    elif width == 4:
        for k in range(count):
            move32(target + 4 * k, source + 4 * k)
    elif width == 8:
        for k in range(count):
            move64(target + 8 * k, source + 8 * k)
    elif width == 2:
        for k in range(count):
            move16(target + 2 * k, source + 2 * k)
    else:
        memcpy(target, source, count * width)


cdef inline void default_bytes(const Op* op, uint8_t* value) noexcept nogil:
    """Write the default of a FIXED or BOOL field, in the column's byte order, padded to 16 bytes with zeros."""
    memset(value, 0, 16)
    if op.width < 16:
        move(value, <const uint8_t*>&op.fallback, 1, op.width, op.code == BOOL)


cdef inline void move_vectors(
    uint8_t* target, int64_t target_step, const uint8_t* source, int64_t source_step, int64_t n, int64_t length,
    const Op* op,
) noexcept nogil:
    """Copy `length` elements of each of `n` records. Three int32 are fastest, since most partitions have 3 replicas."""
    cdef int64_t k
    if op.width == 4 and length == 3:
        if can_shuffle and target_step == 12:
            gather3(target, source, source_step, n)
        elif can_shuffle and source_step == 12:
            scatter3(target, target_step, source, n)
        else:
            each_32x3(target, target_step, source, source_step, n)
    elif op.width == 4 and length == 2:
        each_32x2(target, target_step, source, source_step, n)
    elif op.width == 4 and length == 1:
        each_32(target, target_step, source, source_step, n)
    elif length:
        for k in range(n):
            move(target + k * target_step, source + k * source_step, length, op.width, op.is_bool)


cdef inline bint is_utf8(const uint8_t* text, int64_t length) noexcept nogil:
    """True if the bytes are UTF-8 by RFC 3629: shortest forms, no surrogates, nothing past U+10FFFF."""
    cdef int64_t k = 0, more
    cdef uint8_t lead, low, high
    while k < length:
        if k + 8 <= length and load64(text + k) & <uint64_t>0x8080808080808080 == 0:
            k += 8
            continue
        lead = text[k]
        k += 1
        if lead < 0x80:
            continue
        more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if lead < 0xC2 or lead > 0xF4 or k + more > length:
            return False
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        while more:
            if text[k] < low or text[k] > high:
                return False
            low, high, more, k = 0x80, 0xBF, more - 1, k + 1
    return True
