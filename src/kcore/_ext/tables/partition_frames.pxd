"""Reads PartitionRecord and PartitionChangeRecord from their frames in the metadata log.

Every length is checked before use. `parse_frame` returns OTHER for unusual or invalid records: an unknown tag, null for
a required list, bytes after the record. The caller must handle these records.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    TOPIC_RECORD = 2
    PARTITION_RECORD = 3
    PARTITION_CHANGE_RECORD = 5
    NO_OP_RECORD = 20
    OTHER = -1

cdef enum:  # Lists of both records.
    REPLICAS
    ISR
    REMOVING
    ADDING
    ELR
    LAST_KNOWN_ELR
    DIRECTORIES
    LISTS

cdef struct PartitionFrame:
    const uint8_t* topic_id
    const uint8_t* list[LISTS]
    int32_t count[LISTS]  # -1: null, or not in this version.
    int32_t partition
    int32_t leader        # -2 if a change names no leader.
    int32_t leader_epoch  # This and the next field: only in a PartitionRecord.
    int32_t partition_epoch
    int8_t recovery       # -1 if a change does not set it.

cdef int parse_frame(const uint8_t* at, const uint8_t* end, PartitionFrame* frame) noexcept nogil


cdef inline int32_t load32(const uint8_t* at) noexcept nogil:
    """A big-endian int32 at any address."""
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | <uint32_t>at[3])
