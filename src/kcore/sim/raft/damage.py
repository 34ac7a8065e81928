"""Damages records in flight: flipped bits, missing ends, garbage. Bytes without a checksum stay unchanged.

`mistaken` makes leaders send wrong diverging epochs, within limits: a follower may lose any record that it has not yet
reported to the leader.

A batch's checksum does not cover the batch's offset, length and epoch. A receiver cannot detect a change of these
fields, and neither Raft nor Kafka promises to survive one.
"""

from copy import copy
from random import Random
from typing import Final

from kcore.raft.states import Follower
from kcore.schema.fetch import EpochEndOffset, FetchResponse, SnapshotId
from kcore.schema.fetch_snapshot import FetchSnapshotResponse
from kcore.schema.structure import Message
from kcore.sim.raft.disk import WatchedLog, checksummed
from kcore.sim.raft.simulated_machine import Machine

MOST_BITS: Final = 3  # Flipped bits in one message.
MOST_BATCHES: Final = 20  # A wrong diverging epoch points to one of this many last batches of the log.
WHOLE: Final = 1 << 40  # Bytes: more than any snapshot has.


def damaged(response: Message, log: WatchedLog, random: Random) -> Message | None:
    """A copy of a node's response with damaged records; None if it has none to damage. `log`: the node's log."""
    if type(response) is FetchResponse:
        return _fetched(response, random)
    if type(response) is FetchSnapshotResponse:
        return _piece(response, log, random)
    return None


def mistaken(response: Message | None, machine: Machine, random: Random) -> FetchResponse | None:
    """The leader's Fetch response, but with a diverging epoch at one of the batches that the follower has not flushed.

    None if the follower has flushed all, does not follow this leader, or if the response has an error or no partition.
    """
    node, log = machine.node, machine.log
    state = node.quorum.state
    if type(response) is not FetchResponse or type(state) is not Follower or not response.responses:
        return None
    data = response.responses[0].partitions[0]
    is_its_leader = (data.current_leader.leader_id, data.current_leader.leader_epoch) == (state.leader_id, state.epoch)
    if data.error_code or not is_its_leader or state.fetching_snapshot is not None:
        return None
    lowest = max(log.durable_end, log.high_watermark, log.start_offset + 1)
    ends = [batch.base_offset for batch in reversed(log.batches[-MOST_BATCHES:]) if batch.base_offset >= lowest]
    if not ends:
        return None
    offset = random.choice(ends)
    whole, topic, partition = copy(response), copy(response.responses[0]), copy(data)
    partition.records, partition.snapshot_id = b"", SnapshotId()
    partition.diverging_epoch = EpochEndOffset(epoch=log.epoch_at(offset - 1), end_offset=offset)
    topic.partitions, whole.responses = [partition], [topic]
    return whole


def _fetched(response: FetchResponse, random: Random) -> FetchResponse | None:
    records = bytes(response.responses[0].partitions[0].records or b"") if response.responses else b""
    if not records:
        return None
    kind = random.choice(("bits", "bits", "cut", "garbage"))
    if kind == "bits":
        data = _flipped(records, 0, checksummed(records), random)
    elif kind == "cut":
        data = records[: random.randrange(len(records))]
    else:
        data = random.randbytes(len(records))
    whole, topic, partition = copy(response), copy(response.responses[0]), copy(response.responses[0].partitions[0])
    partition.records, topic.partitions, whole.responses = data, [partition], [topic]
    return whole


def _piece(response: FetchSnapshotResponse, log: WatchedLog, random: Random) -> FetchSnapshotResponse | None:
    if not response.topics:
        return None
    topic, partition = copy(response.topics[0]), copy(response.topics[0].partitions[0])
    data, snapshot = bytes(partition.unaligned_records), partition.snapshot_id
    piece = next(
        (log.snapshot_piece(key, 0, WHOLE) for key in log.snapshots if key.offset == snapshot.end_offset), None
    )
    if not data or piece is None:
        return None
    end = partition.position + len(data)
    checked = [
        range(max(span.start, partition.position), min(span.stop, end))
        for span in checksummed(piece.data)
        if span.start < end and span.stop > partition.position
    ]
    if not checked:
        return None
    whole = copy(response)
    partition.unaligned_records = _flipped(data, partition.position, checked, random)
    topic.partitions, whole.topics = [partition], [topic]
    return whole


def _flipped(data: bytes, begin: int, checked: list[range], random: Random) -> bytes:
    """A copy of `data` with flipped bits in one range of `checked`. `begin`: the position of `data` in these ranges."""
    changed, span = bytearray(data), random.choice(checked)
    for at in {random.choice(span) - begin for _ in range(random.randint(1, MOST_BITS))}:
        changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)
