"""Replays PartitionRecords and PartitionChangeRecords from the bytes of the metadata log into the rows of a table.

A record changes all columns of its row or none: before the first write, the kernel parses the record, looks up its ids
and checks the room. The first record that the kernel cannot replay ends the run; the caller replays it by other code.
Reasons are an unknown topic, broker or directory, a list wider than its column, an epoch at its maximum, another type,
or invalid bytes. The caller also updates other structures (the broker index, reassignments). Axes: see
`kcore.metadata.table.column_list`.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kcore._ext.arrays cimport address_of
from kcore._ext.constants cimport MAX_REPLICAS, NO_LEADER, RECOVERING
from kcore._ext.tables.partition_frames cimport (
    ADDING, DIRECTORIES, ELR, ISR, LAST_KNOWN_ELR, NO_OP_RECORD, PARTITION_CHANGE_RECORD, PARTITION_RECORD, REMOVING,
    REPLICAS, TOPIC_RECORD, PartitionFrame, load32, parse_frame,
)
from kcore._ext.tables.partition_lookup cimport Lookup, add_partition, find_partition, lookup_of
from kcore._ext.tables.row_images cimport RowColumns, row_columns_of, save_row
from kcore._ext.tables.uuid_index cimport find_row

cdef enum:
    MAX_EPOCH = 0x7FFFFFFF
    NO_LEADER_CHANGE = -2
    NO_RECOVERY_CHANGE = -1
    UNKNOWN = -2
    ID_BYTES = 16
    MOVE_HEAD = 3  # Numbers before the brokers in an entry of `moves`: row, 0 (adding) or 1 (removing), brokers.

cdef struct Columns:
    int32_t* topic_row
    int32_t* partition_index
    int16_t* replicas
    int16_t* isr
    int16_t* leader
    int32_t* leader_epoch
    int32_t* partition_epoch
    int32_t* controller_epoch
    int8_t* recovery
    int32_t* directories  # This and the next two: NULL if the table lacks the column.
    int16_t* elr
    int16_t* last_known_elr
    int32_t slots
    int32_t members
    int32_t elr_width
    int32_t last_known_elr_width

cdef struct Ids:
    const int32_t* slots
    const uint8_t* ids
    Py_ssize_t mask

cdef struct Brokers:
    const int16_t* row_of  # By id; -2 for an unknown broker.
    int32_t count

cdef struct Topics:
    int32_t first_fresh  # The topic row of the first TopicRecord of this run; later TopicRecords have the next rows.
    int32_t fresh  # The number of topics that TopicRecords of this run create.
    int32_t created  # The number of those whose TopicRecord has been replayed.

cdef struct Outputs:
    const int32_t* fresh  # Rows for new partitions.
    int32_t* touched  # Changed rows, in the order of the records.
    int32_t* places  # The index of the record that changed each row of `touched`.
    int32_t* moved  # Rows whose replicas change.
    int16_t* moved_before  # The replicas of each row of `moved` before the change.
    int32_t* moves
    int32_t* image_rows
    uint8_t* images
    bint keeps_images
    bint keeps_touched
    int32_t fresh_room, fresh_used, moved_room, moved_used, moves_room, moves_used
    int32_t image_room, image_used, touched_used

cdef struct Found:  # The rows of a frame's brokers, directories, topic and partition.
    int16_t list[6][MAX_REPLICAS]
    int32_t directory[MAX_REPLICAS]
    int16_t leader
    int32_t topic
    int32_t row


cdef inline bint find_brokers(
    const Brokers* brokers, const PartitionFrame* frame, int which, int16_t* rows, int32_t most
) noexcept nogil:
    """Look up the rows of a list's brokers. False if the list has an unknown or a repeated broker, or more than `most`.
    """
    cdef int32_t k, before, id
    if frame.count[which] > most:
        return False
    for k in range(frame.count[which]):
        id = load32(frame.list[which] + 4 * k)
        if id < 0 or id >= brokers.count or brokers.row_of[id] == UNKNOWN:
            return False
        rows[k] = brokers.row_of[id]
        for before in range(k):
            if rows[before] == rows[k]:
                return False
    return True


cdef inline bint find_leader(const Brokers* brokers, int32_t leader, int16_t* row) noexcept nogil:
    if leader == NO_LEADER:
        row[0] = NO_LEADER
        return True
    if leader < 0 or leader >= brokers.count or brokers.row_of[leader] == UNKNOWN:
        return False
    row[0] = brokers.row_of[leader]
    return True


cdef inline bint find_directories(
    const Ids* directories, const Columns* c, const PartitionFrame* frame, int32_t replicas, int32_t* rows
) noexcept nogil:
    """Look up each replica's directory; MIGRATING (0) if the record has none. False for an unknown directory, or one
    that the table cannot store.
    """
    cdef int32_t k, others = 0, count = frame.count[DIRECTORIES]
    if count > 0 and count != replicas:
        return False
    for k in range(replicas):
        rows[k] = 0
        if count > 0:
            rows[k] = find_row(directories.slots, directories.mask, directories.ids,
                               frame.list[DIRECTORIES] + <Py_ssize_t>ID_BYTES * k)
            others |= rows[k]
    return others == 0 or (others > 0 and c.directories != NULL)


cdef inline bint find_lists(const Brokers* b, const Columns* c, const PartitionFrame* f, Found* found) noexcept nogil:
    return (
        find_brokers(b, f, REPLICAS, found.list[REPLICAS], min(c.slots, <int32_t>MAX_REPLICAS))
        and find_brokers(b, f, ISR, found.list[ISR], min(c.members, <int32_t>MAX_REPLICAS))
        and find_brokers(b, f, REMOVING, found.list[REMOVING], MAX_REPLICAS)
        and find_brokers(b, f, ADDING, found.list[ADDING], MAX_REPLICAS)
        and find_brokers(b, f, ELR, found.list[ELR], min(c.elr_width, <int32_t>MAX_REPLICAS))
        and find_brokers(b, f, LAST_KNOWN_ELR, found.list[LAST_KNOWN_ELR],
                         min(c.last_known_elr_width, <int32_t>MAX_REPLICAS))
    )


cdef inline bint has_room(const Outputs* out, const PartitionFrame* f) noexcept nogil:
    """True if the outputs have room for the most that this record can add."""
    cdef int32_t moves = 2 * MOVE_HEAD + max(f.count[ADDING], 0) + max(f.count[REMOVING], 0)
    return (
        out.moves_room - out.moves_used >= moves
        and out.moved_used < out.moved_room
        and (not out.keeps_images or out.image_used < out.image_room)
    )


cdef inline void keep_image(Outputs* out, const RowColumns* images, int32_t row) noexcept nogil:
    if out.keeps_images:
        save_row(images, row, out.images + <Py_ssize_t>out.image_used * images.stride)
        out.image_rows[out.image_used] = row
        out.image_used += 1


cdef inline void put_list(int16_t* to, int32_t width, const int16_t* rows, int32_t count) noexcept nogil:
    memcpy(to, rows, 2 * count)
    memset(to + count, 0xFF, 2 * (width - count))


cdef inline void put_directories(const Columns* c, int32_t row, const int32_t* rows, int32_t count) noexcept nogil:
    if c.directories != NULL:
        memcpy(c.directories + <Py_ssize_t>row * c.slots, rows, 4 * count)
        memset(c.directories + <Py_ssize_t>row * c.slots + count, 0, 4 * (c.slots - count))


cdef inline void put_move(Outputs* out, int32_t row, int32_t part, const int16_t* rows, int32_t count) noexcept nogil:
    cdef int32_t k
    cdef int32_t* move = out.moves + out.moves_used
    move[0], move[1], move[2] = row, part, count
    for k in range(count):
        move[MOVE_HEAD + k] = rows[k]
    out.moves_used += MOVE_HEAD + count


cdef inline void put_elrs(const Columns* c, const PartitionFrame* f, const Found* found, bint is_new) noexcept nogil:
    """Write the ELR lists. A null list means an empty list for a new partition, and no change for a known one."""
    if c.elr != NULL and (is_new or f.count[ELR] >= 0):
        put_list(c.elr + <Py_ssize_t>found.row * c.elr_width, c.elr_width, found.list[ELR], max(f.count[ELR], 0))
    if c.last_known_elr != NULL and (is_new or f.count[LAST_KNOWN_ELR] >= 0):
        put_list(c.last_known_elr + <Py_ssize_t>found.row * c.last_known_elr_width, c.last_known_elr_width,
                 found.list[LAST_KNOWN_ELR], max(f.count[LAST_KNOWN_ELR], 0))


cdef bint create(
    const Columns* c, const RowColumns* images, Lookup* lookup, const Brokers* brokers, const Ids* directories,
    const PartitionFrame* f, Found* found, Outputs* out
) noexcept nogil:
    """Add a new partition; False, without a change, if this kernel cannot replay the record."""
    cdef int32_t replicas = f.count[REPLICAS], row
    if (
        f.partition < 0 or f.partition == 0x7FFFFFFF or replicas < 1 or f.leader_epoch < -1 or f.partition_epoch < -1
        or f.recovery < 0 or f.recovery > RECOVERING or out.fresh_used == out.fresh_room
    ):
        return False
    if (
        not find_lists(brokers, c, f, found) or not find_leader(brokers, f.leader, &found.leader)
        or not find_directories(directories, c, f, replicas, found.directory)
    ):
        return False
    row = found.row = out.fresh[out.fresh_used]
    if not add_partition(lookup, found.topic, f.partition, row):
        return False
    out.fresh_used += 1
    keep_image(out, images, row)
    c.topic_row[row], c.partition_index[row] = found.topic, f.partition
    put_list(c.replicas + <Py_ssize_t>row * c.slots, c.slots, found.list[REPLICAS], replicas)
    put_list(c.isr + <Py_ssize_t>row * c.members, c.members, found.list[ISR], f.count[ISR])
    c.leader[row], c.recovery[row] = found.leader, f.recovery
    c.leader_epoch[row], c.partition_epoch[row], c.controller_epoch[row] = f.leader_epoch, f.partition_epoch, 0
    put_directories(c, row, found.directory, replicas)
    put_elrs(c, f, found, True)
    if f.count[ADDING] > 0:
        put_move(out, row, 0, found.list[ADDING], f.count[ADDING])
    if f.count[REMOVING] > 0:
        put_move(out, row, 1, found.list[REMOVING], f.count[REMOVING])
    return True


cdef inline int32_t count_of(const int16_t* rows, int32_t width) noexcept nogil:
    cdef int32_t k
    for k in range(width):
        if rows[k] < 0:
            return k
    return width


cdef bint change(
    const Columns* c, const RowColumns* images, const Brokers* brokers, const Ids* directories,
    const PartitionFrame* f, Found* found, Outputs* out
) noexcept nogil:
    """Change a partition, as PartitionRegistration.merge; False, without a change, if this kernel cannot replay it."""
    cdef int32_t row = found.row, moved = f.count[REPLICAS]
    cdef int16_t* replicas = c.replicas + <Py_ssize_t>row * c.slots
    cdef int32_t before = count_of(replicas, c.slots), after = before if moved < 0 else moved
    cdef bint names_leader = f.leader != NO_LEADER_CHANGE
    if (
        moved == 0 or f.recovery < NO_RECOVERY_CHANGE or f.recovery > RECOVERING
        or c.partition_epoch[row] == MAX_EPOCH or (names_leader and c.leader_epoch[row] == MAX_EPOCH)
    ):
        return False
    if (
        not find_lists(brokers, c, f, found)
        or (names_leader and not find_leader(brokers, f.leader, &found.leader))
        or (f.count[DIRECTORIES] >= 0 and not find_directories(directories, c, f, after, found.directory))
    ):
        return False
    keep_image(out, images, row)
    if moved > 0:
        out.moved[out.moved_used] = row
        memcpy(out.moved_before + <Py_ssize_t>out.moved_used * c.slots, replicas, 2 * c.slots)
        out.moved_used += 1
        put_list(replicas, c.slots, found.list[REPLICAS], moved)
    if f.count[DIRECTORIES] >= 0:
        put_directories(c, row, found.directory, after)
    elif after != before:  # At a level without directories, moved replicas are MIGRATING.
        put_directories(c, row, found.directory, 0)
    if f.count[ISR] >= 0:
        put_list(c.isr + <Py_ssize_t>row * c.members, c.members, found.list[ISR], f.count[ISR])
    if names_leader:
        c.leader[row] = found.leader
        c.leader_epoch[row] += 1
    if f.recovery != NO_RECOVERY_CHANGE:
        c.recovery[row] = f.recovery
    c.partition_epoch[row] += 1
    put_elrs(c, f, found, False)
    if f.count[ADDING] >= 0:
        put_move(out, row, 0, found.list[ADDING], f.count[ADDING])
    if f.count[REMOVING] >= 0:
        put_move(out, row, 1, found.list[REMOVING], f.count[REMOVING])
    return True


cdef Py_ssize_t replay_frames(
    const uint8_t* data, int64_t size, const int64_t* begins, const int64_t* ends, Py_ssize_t place, Py_ssize_t end,
    const Columns* c, const RowColumns* images, Lookup* lookup, const Brokers* brokers, const Ids* topics_by_id,
    const Ids* directories, Topics* topics, Outputs* out
) noexcept nogil:
    """Replay the records from `place` up to `end`; returns the index of the first record that was not replayed."""
    cdef PartitionFrame frame
    cdef Found found
    cdef int kind
    while place < end:
        if begins[place] < 0 or ends[place] > size or begins[place] > ends[place]:
            return place
        kind = parse_frame(data + begins[place], data + ends[place], &frame)
        if kind == PARTITION_RECORD or kind == PARTITION_CHANGE_RECORD:
            found.topic = find_row(topics_by_id.slots, topics_by_id.mask, topics_by_id.ids, frame.topic_id)
            if found.topic < 0 or found.topic >= lookup.topics or not has_room(out, &frame):
                return place
            if topics.first_fresh + topics.created <= found.topic < topics.first_fresh + topics.fresh:
                return place  # A later TopicRecord creates the topic.
            found.row = find_partition(lookup, found.topic, frame.partition)
            if (kind == PARTITION_RECORD) != (found.row < 0):
                return place
            if found.row < 0 and not create(c, images, lookup, brokers, directories, &frame, &found, out):
                return place
            elif kind == PARTITION_CHANGE_RECORD and not change(c, images, brokers, directories, &frame, &found, out):
                return place
            if out.keeps_touched:
                out.touched[out.touched_used], out.places[out.touched_used] = found.row, <int32_t>place
                out.touched_used += 1
        elif kind == TOPIC_RECORD:
            if topics.created == topics.fresh:
                return place
            topics.created += 1
        elif kind != NO_OP_RECORD:
            return place
        place += 1
    return place


cdef void* address_or_null(object array) except? NULL:
    return NULL if array is None else address_of(array)


cdef int32_t width_of(object array) except? -1:
    return 0 if array is None else array.shape[1]


cdef Columns columns_of(tuple arrays) except *:
    cdef Columns c
    (topic_row, partition_index, replicas, isr, leader, leader_epoch, partition_epoch, controller_epoch, recovery,
     directories, elr, last_known_elr) = arrays
    c.topic_row, c.partition_index = <int32_t*>address_of(topic_row), <int32_t*>address_of(partition_index)
    c.replicas, c.isr = <int16_t*>address_of(replicas), <int16_t*>address_of(isr)
    c.leader, c.recovery = <int16_t*>address_of(leader), <int8_t*>address_of(recovery)
    c.leader_epoch, c.partition_epoch = <int32_t*>address_of(leader_epoch), <int32_t*>address_of(partition_epoch)
    c.controller_epoch = <int32_t*>address_of(controller_epoch)
    c.directories = <int32_t*>address_or_null(directories)
    c.elr, c.last_known_elr = <int16_t*>address_or_null(elr), <int16_t*>address_or_null(last_known_elr)
    c.slots, c.members = width_of(replicas), width_of(isr)
    c.elr_width, c.last_known_elr_width = width_of(elr), width_of(last_known_elr)
    assert directories is None or directories.shape[1] == c.slots
    return c


cdef Ids ids_of(tuple index) except *:
    return Ids(<const int32_t*>address_of(index[0]), <const uint8_t*>address_of(index[1]), len(index[0]) - 1)


cdef Outputs outputs_of(object fresh, tuple touched, tuple moved, object moves, object images, int32_t used) except *:
    cdef Outputs out
    out.fresh, out.fresh_room, out.fresh_used = <const int32_t*>address_of(fresh), len(fresh), 0
    out.keeps_touched, out.touched_used = touched is not None, 0
    if touched is not None:
        out.touched, out.places = <int32_t*>address_of(touched[0]), <int32_t*>address_of(touched[1])
    out.moved, out.moved_before = <int32_t*>address_of(moved[0]), <int16_t*>address_of(moved[1])
    out.moved_room, out.moved_used = len(moved[0]), 0
    out.moves, out.moves_room, out.moves_used = <int32_t*>address_of(moves), len(moves), 0
    out.keeps_images, out.image_used, out.image_room = images is not None, used, 0
    if images is not None:
        out.image_rows, out.images = <int32_t*>address_of(images[0]), <uint8_t*>address_of(images[1])
        out.image_room = len(images[0])
    return out


def run(
    const uint8_t[::1] data, const int64_t[::1] begins, const int64_t[::1] ends, Py_ssize_t place, Py_ssize_t end,
    tuple columns, tuple all_columns, tuple lookup, const int16_t[::1] broker_rows, tuple topics_by_id,
    tuple directories, tuple fresh_topics, const int32_t[::1] fresh_rows, touched, tuple moved,
    const int32_t[::1] moves, images, int32_t images_used,
) -> tuple:
    """Replay the records from `place` up to `end`; returns the index of the first record that was not replayed.

    Then the used numbers of fresh rows, touched rows, moved rows, int32 in `moves`, images, and created topics.
    """
    cdef Columns c = columns_of(columns)
    cdef RowColumns image_columns = row_columns_of(all_columns)
    cdef Lookup known = lookup_of(lookup)
    cdef Brokers brokers = Brokers(&broker_rows[0], <int32_t>(broker_rows.shape[0] - 1))
    cdef Ids by_id = ids_of(topics_by_id), by_directory = ids_of(directories)
    cdef Topics topics = Topics(fresh_topics[0], fresh_topics[1], fresh_topics[2])
    cdef Outputs out = outputs_of(fresh_rows, touched, moved, moves, images, images_used)
    assert 0 <= place <= end <= min(begins.shape[0], ends.shape[0]) and broker_rows.shape[0] > 0
    assert moved[1].shape[1] == c.slots and len(moved[1]) == len(moved[0])
    assert touched is None or min(len(touched[0]), len(touched[1])) >= end - place
    assert images is None or (images[1].shape[1] == image_columns.stride and len(images[1]) == len(images[0]))
    if end == place or data.shape[0] == 0:
        return place, 0, 0, 0, 0, images_used, topics.created
    with nogil:
        place = replay_frames(&data[0], data.shape[0], &begins[0], &ends[0], place, end, &c, &image_columns, &known,
                              &brokers, &by_id, &by_directory, &topics, &out)
    return (place, out.fresh_used, out.touched_used, out.moved_used, out.moves_used, out.image_used, topics.created)
