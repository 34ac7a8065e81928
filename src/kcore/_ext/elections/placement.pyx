"""Kernels of replica placement: AdminUtils' shifting round robin and StripedReplicaPlacer's stripes.

They fill `replicas__ps` with broker ids. Callers pass at least as many brokers as slots, and only valid rows.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t


def place_shifted(
    int32_t[:, ::1] replicas__ps,
    const int32_t[::1] brokers__b,
    const int32_t[::1] racks__b,
    int32_t[::1] broker_taken_by__b,
    int32_t[::1] rack_taken_by__r,
    int64_t start,
    int64_t shift,
    int64_t start_partition,
):
    """Place first replicas round robin, and the others at a distance from the first that grows every round.

    A rack gets a second replica of a partition only when every rack has one. `racks__b` numbers the racks from 0, and
    each rack has a broker. The `taken_by` columns are scratch space that the caller fills with -1.
    """
    cdef Py_ssize_t brokers = brokers__b.shape[0], racks = rack_taken_by__r.shape[0], others = max(brokers - 1, 1)
    cdef Py_ssize_t first = (start_partition + start) % brokers
    cdef Py_ssize_t place_in_round = start_partition % brokers
    cdef Py_ssize_t distance = (shift % others) * racks % others
    cdef Py_ssize_t p
    with nogil:
        for p in range(replicas__ps.shape[0]):
            if place_in_round == 0 and start_partition + p > 0:
                distance = (distance + racks) % others
            shifted_one(replicas__ps, p, brokers__b, racks__b, broker_taken_by__b, rack_taken_by__r, first, distance)
            first = first + 1 if first + 1 < brokers else 0
            place_in_round = place_in_round + 1 if place_in_round + 1 < brokers else 0


cdef inline void shifted_one(
    int32_t[:, ::1] replicas__ps,
    Py_ssize_t p,
    const int32_t[::1] brokers__b,
    const int32_t[::1] racks__b,
    int32_t[::1] broker_taken_by__b,
    int32_t[::1] rack_taken_by__r,
    Py_ssize_t first,
    Py_ssize_t distance,
) noexcept nogil:
    cdef Py_ssize_t brokers = brokers__b.shape[0], racks_left = rack_taken_by__r.shape[0]
    cdef Py_ssize_t s, row = first
    cdef int32_t rack
    for s in range(replicas__ps.shape[1]):
        # The loop ends: it reaches a broker of a rack without a replica or, if all racks have one, an unused broker.
        while broker_taken_by__b[row] == p or (racks_left and rack_taken_by__r[racks__b[row]] == p):
            row, distance = follower_row(first, distance, brokers), next_distance(distance, brokers)
        rack = racks__b[row]
        racks_left -= rack_taken_by__r[rack] != p
        rack_taken_by__r[rack] = broker_taken_by__b[row] = <int32_t> p
        replicas__ps[p, s] = brokers__b[row]


cdef inline Py_ssize_t follower_row(Py_ssize_t first, Py_ssize_t distance, Py_ssize_t brokers) noexcept nogil:
    cdef Py_ssize_t row = first + 1 + distance
    return row if row < brokers else row - brokers


cdef inline Py_ssize_t next_distance(Py_ssize_t distance, Py_ssize_t brokers) noexcept nogil:
    return distance + 1 if distance + 1 < brokers - 1 else 0


cdef struct Stripes:
    Py_ssize_t racks
    int32_t epoch       # Partitions placed since the last shuffle.
    Py_ssize_t offset   # The position in the order of racks at which the next partition begins.
    uint64_t random     # The state of the java.util.Random.


def place_striped(
    int32_t[:, ::1] replicas__ps,
    int32_t[::1] brokers__b,
    const int32_t[::1] list_starts__l,
    int32_t[::1] offsets__l,
    int32_t[::1] taken__l,
    int32_t[::1] epochs__l,
    int32_t[::1] rack_order__r,
    const int32_t[::1] shuffle_order__r,
    int32_t unfenced,
    int32_t offset,
    uint64_t random_state,
):
    """Place stripes over racks; returns the state of the random sequence afterwards.

    `brokers__b` has two lists for rack r: list 2r has the unfenced brokers, list 2r + 1 the fenced ones. List l begins
    at `list_starts__l[l]`.
    """
    cdef Stripes stripes
    cdef Py_ssize_t p
    stripes.racks, stripes.epoch, stripes.offset, stripes.random = rack_order__r.shape[0], 0, offset, random_state
    with nogil:
        for p in range(replicas__ps.shape[0]):
            # A single unfenced broker is never shuffled: after a shuffle it would look used for ever (KAFKA-12897).
            if stripes.epoch == unfenced and unfenced > 1:
                shuffle_all(&stripes, brokers__b, list_starts__l, rack_order__r, shuffle_order__r)
            if stripes.offset == stripes.racks:
                stripes.offset = 0
            striped_one(
                replicas__ps, p, &stripes, brokers__b, list_starts__l, offsets__l, taken__l, epochs__l, rack_order__r
            )
            stripes.epoch += 1
            stripes.offset += 1
    return stripes.random


cdef inline void striped_one(
    int32_t[:, ::1] replicas__ps,
    Py_ssize_t p,
    Stripes *stripes,
    const int32_t[::1] brokers__b,
    const int32_t[::1] list_starts__l,
    int32_t[::1] offsets__l,
    int32_t[::1] taken__l,
    int32_t[::1] epochs__l,
    const int32_t[::1] rack_order__r,
) noexcept nogil:
    # Both searches end. A list whose last use was in an epoch of the same number looks used up right after a shuffle.
    # But the lists that the previous partition used start again, and they have enough brokers.
    cdef Py_ssize_t s, at = stripes.offset, leader_at = stripes.offset
    cdef int32_t broker, rack
    while True:
        broker = next_broker(
            2 * rack_order__r[leader_at], stripes.epoch, brokers__b, list_starts__l, offsets__l, taken__l, epochs__l
        )
        if broker >= 0:
            break
        leader_at = leader_at + 1 if leader_at + 1 < stripes.racks else 0
    replicas__ps[p, 0] = broker
    for s in range(1, replicas__ps.shape[1]):
        broker = -1
        while broker < 0:
            rack = rack_order__r[at]
            if at == leader_at:
                leader_at = -1  # The leader's rack is skipped once.
            else:
                broker = next_broker(
                    2 * rack, stripes.epoch, brokers__b, list_starts__l, offsets__l, taken__l, epochs__l
                )
                if broker < 0:
                    broker = next_broker(
                        2 * rack + 1, stripes.epoch, brokers__b, list_starts__l, offsets__l, taken__l, epochs__l
                    )
            at = at + 1 if at + 1 < stripes.racks else 0
        replicas__ps[p, s] = broker


cdef inline int32_t next_broker(
    Py_ssize_t l,
    int32_t epoch,
    const int32_t[::1] brokers__b,
    const int32_t[::1] list_starts__l,
    int32_t[::1] offsets__l,
    int32_t[::1] taken__l,
    int32_t[::1] epochs__l,
) noexcept nogil:
    cdef int32_t size = list_starts__l[l + 1] - list_starts__l[l]
    cdef int32_t place
    if size == 0:
        return -1
    if epochs__l[l] != epoch:
        epochs__l[l] = epoch
        taken__l[l] = 0
        offsets__l[l] = offsets__l[l] + 1 if offsets__l[l] + 1 < size else 0
    if taken__l[l] >= size:
        return -1
    place = taken__l[l] + offsets__l[l]
    taken__l[l] += 1
    return brokers__b[list_starts__l[l] + (place if place < size else place - size)]


cdef void shuffle_all(
    Stripes *stripes,
    int32_t[::1] brokers__b,
    const int32_t[::1] list_starts__l,
    int32_t[::1] rack_order__r,
    const int32_t[::1] shuffle_order__r,
) noexcept nogil:
    cdef Py_ssize_t i, first
    stripes.epoch = 0
    shuffle(&stripes.random, rack_order__r, 0, stripes.racks)
    for i in range(stripes.racks):
        first = 2 * shuffle_order__r[i]  # A rack's two lists: unfenced brokers, then fenced ones.
        shuffle(&stripes.random, brokers__b, list_starts__l[first + 1], list_starts__l[first + 2])
        shuffle(&stripes.random, brokers__b, list_starts__l[first], list_starts__l[first + 1])


cdef inline void shuffle(uint64_t *random, int32_t[::1] items, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(end - start, 1, -1):
        j = start + next_int(random, <int32_t> i)
        items[start + i - 1], items[j] = items[j], items[start + i - 1]


cdef inline int64_t next_31_bits(uint64_t *random) noexcept nogil:
    random[0] = (random[0] * <uint64_t> 0x5DEECE66D + 0xB) & ((<uint64_t> 1 << 48) - 1)
    return <int64_t> (random[0] >> 17)


cdef inline int64_t next_int(uint64_t *random, int64_t bound) noexcept nogil:
    cdef int64_t drawn = next_31_bits(random)
    if bound & (bound - 1) == 0:
        return bound * drawn >> 31
    while drawn - drawn % bound + bound - 1 >= <int64_t> 1 << 31:
        drawn = next_31_bits(random)
    return drawn % bound
