"""What the column kernels share: the program that `wire/layout.py` writes, and loads and stores of any byte order.

A program is two tables of int64, one row a struct and one row a field; the structs below name their columns.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum Code:  # What a field is on the wire.
    FIXED = 0    # `width` bytes; swapped to the host's order where the width is 2, 4 or 8
    BOOL = 1     # a byte, kept as 0 or 1
    VECTOR = 2   # a length and that many elements of `width`: strings, bytes, arrays of numbers
    ROWS = 3     # a count and that many structs
    STRUCT = 4   # one struct, behind a marker byte where it may be null

cdef enum Prefix:  # How a length is written.
    INT16 = 0
    INT32 = 1
    VARINT = 2   # length + 1

cdef enum Limits:
    MAX_WINDOWS = 8
    MAX_VECTORS = 12
    BLOCK = 128      # Records handled field by field at a time: what they touch stays in the L1 cache.
    MIN_RUN = 8      # Shorter runs of equal layout are not worth their set-up.
    MAX_TEXT = 32767  # Kafka's limit of a string, compact or not.

cdef struct Op:
    int64_t code
    int64_t width
    int64_t prefix
    int64_t nullable
    int64_t is_text
    int64_t is_bool   # the elements of a VECTOR
    int64_t column    # FIXED: values. VECTOR: offsets, values[, valid]. ROWS: offsets[, valid]. Nullable STRUCT: offsets.
    int64_t child     # ROWS, STRUCT: the node
    int64_t tag       # of a tagged field
    int64_t fallback  # the default as it is on the wire, first byte first; 1 for a VECTOR, ROWS or STRUCT that is null

cdef struct Node:
    int64_t op_begin    # fields in line
    int64_t op_end      # tagged fields follow, ascending
    int64_t tag_end
    int64_t flexible    # ends in tagged fields
    int64_t tag_column  # of unknown tags: row, tag, offsets, bytes
    int64_t min_size    # the fewest bytes that a row takes
    int64_t flat        # only FIXED, BOOL and few VECTORs without null, no known tags: handled field by field

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
    /* The same move for `n` records, with constant steps or at places[k] bytes of one side. Four at a time, so that
       the chain of additions is short. */
    #define KC_EACH(NAME, MOVE) \
    static inline void kc_each_##NAME(uint8_t *to, int64_t step, const uint8_t *from, int64_t from_step, int64_t n) { \
        for (; n >= 4; n -= 4, to += 4 * step, from += 4 * from_step) { \
            MOVE(to, from); \
            MOVE(to + step, from + from_step); \
            MOVE(to + 2 * step, from + 2 * from_step); \
            MOVE(to + 3 * step, from + 3 * from_step); \
        } \
        for (; n > 0; n--, to += step, from += from_step) MOVE(to, from); \
    } \
    static inline void kc_from_##NAME(uint8_t *to, int64_t step, const uint8_t *from, const int32_t *places, int64_t n) { \
        for (int64_t k = 0; k < n; k++) MOVE(to + k * step, from + places[k]); \
    } \
    static inline void kc_to_##NAME(uint8_t *to, const int32_t *places, const uint8_t *from, int64_t step, int64_t n) { \
        for (int64_t k = 0; k < n; k++) MOVE(to + places[k], from + k * step); \
    }
    KC_EACH(8, kc_move8)
    KC_EACH(bool, kc_move_bool)
    KC_EACH(16, kc_move16)
    KC_EACH(32, kc_move32)
    KC_EACH(32x2, kc_move32x2)
    KC_EACH(32x3, kc_move32x3)
    KC_EACH(64, kc_move64)
    KC_EACH(128, kc_move128)
    static inline void kc_ends(int32_t *ends, int32_t end, int32_t length, int64_t n) {
        int32_t next[4] = {end + length, end + 2 * length, end + 3 * length, end + 4 * length};
        for (; n >= 4; n -= 4, ends += 4) {
            for (int k = 0; k < 4; k++) { ends[k] = next[k]; next[k] += 4 * length; }
        }
        for (int k = 0; k < n; k++) ends[k] = next[k];
    }
    static inline uint64_t kc_differ(const uint8_t *at, int64_t step, uint64_t mask, uint64_t value, int64_t n) {
        uint64_t a = 0, b = 0;  /* Any bit that is not as in `value`, in either: summed apart to be no chain. */
        for (; n >= 4; n -= 4, at += 4 * step) {
            a |= ((kc_load64(at) ^ value) | (kc_load64(at + step) ^ value));
            b |= ((kc_load64(at + 2 * step) ^ value) | (kc_load64(at + 3 * step) ^ value));
        }
        for (; n > 0; n--, at += step) a |= kc_load64(at) ^ value;
        return (a | b) & mask;
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
    void each_8 "kc_each_8"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_bool "kc_each_bool"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_16 "kc_each_16"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_32 "kc_each_32"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_32x2 "kc_each_32x2"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_32x3 "kc_each_32x3"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_64 "kc_each_64"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void each_128 "kc_each_128"(uint8_t *to, int64_t step, const uint8_t *source, int64_t from_step, int64_t n) noexcept nogil
    void from_8 "kc_from_8"(uint8_t *to, int64_t step, const uint8_t *source, const int32_t *places, int64_t n) noexcept nogil
    void from_bool "kc_from_bool"(uint8_t *to, int64_t step, const uint8_t *source, const int32_t *places, int64_t n) noexcept nogil
    void from_16 "kc_from_16"(uint8_t *to, int64_t step, const uint8_t *source, const int32_t *places, int64_t n) noexcept nogil
    void from_32 "kc_from_32"(uint8_t *to, int64_t step, const uint8_t *source, const int32_t *places, int64_t n) noexcept nogil
    void from_64 "kc_from_64"(uint8_t *to, int64_t step, const uint8_t *source, const int32_t *places, int64_t n) noexcept nogil
    void from_128 "kc_from_128"(uint8_t *to, int64_t step, const uint8_t *source, const int32_t *places, int64_t n) noexcept nogil
    void to_8 "kc_to_8"(uint8_t *to, const int32_t *places, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void to_bool "kc_to_bool"(uint8_t *to, const int32_t *places, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void to_16 "kc_to_16"(uint8_t *to, const int32_t *places, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void to_32 "kc_to_32"(uint8_t *to, const int32_t *places, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void to_64 "kc_to_64"(uint8_t *to, const int32_t *places, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void to_128 "kc_to_128"(uint8_t *to, const int32_t *places, const uint8_t *source, int64_t step, int64_t n) noexcept nogil
    void move32x2 "kc_move32x2"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move32x3 "kc_move32x3"(uint8_t *target, const uint8_t *source) noexcept nogil
    void move32x4 "kc_move32x4"(uint8_t *target, const uint8_t *source) noexcept nogil
    void put_ends "kc_ends"(int32_t *ends, int32_t end, int32_t length, int64_t n) noexcept nogil
    void put_bytes "kc_put"(uint8_t *to, int64_t step, uint8_t byte, int64_t n) noexcept nogil
    uint64_t differ "kc_differ"(const uint8_t *at, int64_t step, uint64_t mask, uint64_t value, int64_t n) noexcept nogil


cdef inline void move(uint8_t* target, const uint8_t* source, int64_t count, int64_t width, bint is_bool) noexcept nogil:
    """Copy `count` values between wire and column order."""
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
        for k in range(count * width):
            target[k] = source[k]


cdef inline void gather(uint8_t* column, const uint8_t* source, int64_t step, int64_t n, const Op* op) noexcept nogil:
    """Fill a column from one place of `n` records of equal layout."""
    if op.code == BOOL:
        each_bool(column, 1, source, step, n)
    elif op.width == 4:
        each_32(column, 4, source, step, n)
    elif op.width == 1:
        each_8(column, 1, source, step, n)
    elif op.width == 8:
        each_64(column, 8, source, step, n)
    elif op.width == 2:
        each_16(column, 2, source, step, n)
    else:
        each_128(column, 16, source, step, n)


cdef inline void scatter(uint8_t* target, int64_t step, const uint8_t* column, int64_t n, const Op* op) noexcept nogil:
    """Put a column into one place of `n` records of equal layout."""
    if op.code == BOOL:
        each_bool(target, step, column, 1, n)
    elif op.width == 4:
        each_32(target, step, column, 4, n)
    elif op.width == 1:
        each_8(target, step, column, 1, n)
    elif op.width == 8:
        each_64(target, step, column, 8, n)
    elif op.width == 2:
        each_16(target, step, column, 2, n)
    else:
        each_128(target, step, column, 16, n)


cdef inline void gather_at(
    uint8_t* column, const uint8_t* source, const int32_t* places, int64_t n, const Op* op
) noexcept nogil:
    """Fill a column from records that begin at `places`."""
    if op.code == BOOL:
        from_bool(column, 1, source, places, n)
    elif op.width == 4:
        from_32(column, 4, source, places, n)
    elif op.width == 1:
        from_8(column, 1, source, places, n)
    elif op.width == 8:
        from_64(column, 8, source, places, n)
    elif op.width == 2:
        from_16(column, 2, source, places, n)
    else:
        from_128(column, 16, source, places, n)


cdef inline void scatter_at(
    uint8_t* target, const int32_t* places, const uint8_t* column, int64_t n, const Op* op
) noexcept nogil:
    """Put a column into records that begin at `places`."""
    if op.code == BOOL:
        to_bool(target, places, column, 1, n)
    elif op.width == 4:
        to_32(target, places, column, 4, n)
    elif op.width == 1:
        to_8(target, places, column, 1, n)
    elif op.width == 8:
        to_64(target, places, column, 8, n)
    elif op.width == 2:
        to_16(target, places, column, 2, n)
    else:
        to_128(target, places, column, 16, n)


cdef inline void move_vectors(
    uint8_t* target, int64_t target_step, const uint8_t* source, int64_t source_step, int64_t n, int64_t length,
    const Op* op,
) noexcept nogil:
    """Copy `length` elements a record, for `n` records; three int32 a record is what most partitions have."""
    cdef int64_t k
    if op.width == 4 and length == 3:
        each_32x3(target, target_step, source, source_step, n)
    elif op.width == 4 and length == 2:
        each_32x2(target, target_step, source, source_step, n)
    elif op.width == 4 and length == 1:
        each_32(target, target_step, source, source_step, n)
    elif length:
        for k in range(n):
            move(target + k * target_step, source + k * source_step, length, op.width, op.is_bool)


cdef inline void move_few(uint8_t* target, const uint8_t* source, int64_t length, const Op* op) noexcept nogil:
    """Copy one record's elements, mostly few int32."""
    if op.width != 4 or length > 4:
        move(target, source, length, op.width, op.is_bool)
    elif length == 3:
        move32x3(target, source)
    elif length == 2:
        move32x2(target, source)
    elif length == 1:
        move32(target, source)
    elif length == 4:
        move32x4(target, source)


cdef inline bint is_utf8(const uint8_t* text, int64_t length) noexcept nogil:
    """Whether the bytes are UTF-8 as RFC 3629 has it: shortest forms, no surrogates, nothing past U+10FFFF."""
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
