"""Follow the metadata log of a KRaft quorum as an observer, and print what changes in the cluster.

    python examples/metadata_follower.py HOST:PORT

Give the address of any controller of Kafka 3.9 or newer: its response names the leader, and the program goes there.
The program applies committed batches only, so it never has to truncate. Ctrl-C ends it.
"""

import socket
import sys
import time
from contextlib import suppress
from functools import partial
from io import BufferedRWPair
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from kcore import Errors
from kcore.schema import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestHeader,
    ResponseHeader,
    fetch,
    fetch_snapshot,
)
from kcore.tables import ClusterImage, MetadataDelta, replay
from kcore.wire import Message, Uuid, decode_from, decode_records, encode, scan_batches

M = TypeVar("M", bound=Message)
TOPIC, TOPIC_ID, PARTITION = "__cluster_metadata", Uuid("AAAAAAAAAAAAAAAAAAAAAQ"), 0
FETCH_VERSION, FETCH_SNAPSHOT_VERSION = 17, 1  # The first ones whose responses have the leader's address (KIP-853).
RECORDS_BYTES: Final = 8 << 20  # A response has at most so many, or one larger batch.
MOST_FRAME_BYTES: Final = 100 << 20
WAIT_MS: Final = 500  # The leader answers after this time if it has no new record.
TIMEOUT_S: Final = 10
NO_LEADER: Final = -1
PAUSE_S: Final = 0.1  # Before the next request, if the last one brought nothing that can be applied.
RETRY_S: Final = 1.0  # After a connection is lost.
say = partial(print, flush=True)


def ask(stream: BufferedRWPair, request: Message, version: int, kind: type[M]) -> M:
    """Sends a request, and returns its response."""
    header = RequestHeader(request_api_key=request.api_key, request_api_version=version, client_id="metadata-follower")
    body = encode(header, request.header_version(version)) + encode(request, version)
    stream.write(len(body).to_bytes(4) + body)
    stream.flush()
    size = int.from_bytes(stream.read(4))
    if not 0 < size <= MOST_FRAME_BYTES or len(frame := stream.read(size)) < size:
        raise ConnectionError("the controller closed the connection, or it does not speak Kafka's protocol")
    _, begin = decode_from(ResponseHeader, kind.header_version(version), frame)
    return decode_from(kind, version, frame, begin)[0]


class Follower:
    """The cluster's state, from the beginning of the log or from a snapshot up to the last committed batch."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._epoch = 0  # The highest leader epoch that a controller has named.

    def follow(self, stream: BufferedRWPair) -> tuple[str, int] | None:
        """Follows one controller until it refuses; returns the leader's address if the controller names it."""
        while True:
            response = ask(stream, self._next_fetch(), FETCH_VERSION, FetchResponse)
            if not response.responses:
                raise ConnectionError(f"the controller refuses a Fetch: {Errors.of(response.error_code).name}")
            data = response.responses[0].partitions[0]
            if data.error_code:
                leader = data.current_leader
                self._epoch = max(self._epoch, leader.leader_epoch)
                addresses = {each.node_id: (each.host, each.port) for each in response.node_endpoints}
                return addresses.get(leader.leader_id)
            if data.diverging_epoch.epoch >= 0:
                raise SystemExit("the leader's log lacks committed records: this is another cluster")
            if data.snapshot_id.epoch >= 0:
                self._load(stream, data.snapshot_id)
            else:
                self._apply(bytes(data.records or b""), data.high_watermark)

    def _next_fetch(self) -> FetchRequest:
        partition = fetch.FetchPartition(
            partition=PARTITION,
            current_leader_epoch=self._epoch,
            fetch_offset=self._image.end_offset,
            last_fetched_epoch=max(self._image.epoch, 0),
        )
        topic = fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
        return FetchRequest(max_wait_ms=WAIT_MS, max_bytes=RECORDS_BYTES, topics=[topic])

    def _load(self, stream: BufferedRWPair, found: fetch.SnapshotId) -> None:
        """Replaces the state by that of a snapshot, piece by piece: the log no longer has all records before it."""
        snapshot = fetch_snapshot.SnapshotId(end_offset=found.end_offset, epoch=found.epoch)
        data, size = b"", 1
        while len(data) < size:
            partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
                partition=PARTITION, current_leader_epoch=self._epoch, snapshot_id=snapshot, position=len(data)
            )
            topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])
            request = FetchSnapshotRequest(max_bytes=RECORDS_BYTES, topics=[topic])
            response = ask(stream, request, FETCH_SNAPSHOT_VERSION, FetchSnapshotResponse)
            piece = response.topics[0].partitions[0]
            if piece.error_code or not piece.unaligned_records:
                raise ConnectionError(f"the controller does not send its snapshot: {Errors.of(piece.error_code).name}")
            data, size = data + piece.unaligned_records, piece.size
        image = self._image = ClusterImage()
        replay(image, decode_records(data))
        image.end_offset, image.epoch = snapshot.end_offset, snapshot.epoch
        topics, partitions = image.topics.count, image.table.partition_count
        say(f"a snapshot has {len(image.brokers.keys())} brokers, {topics} topics, {partitions} partitions")

    def _apply(self, data: bytes, high_watermark: int) -> None:
        """Applies the committed batches of a response, and prints the changes."""
        batches = scan_batches(data, stop=True)  # The last batch may be cut off.
        committed_bytes = int(batches.size[batches.last_offset < high_watermark].sum())
        if not committed_bytes:
            time.sleep(PAUSE_S if data else 0)  # The next Fetch returns the same batches, by then committed.
            return
        begin, leaders = self._image.end_offset, self._image.table.leader__p.copy()
        self._image.keep_deltas(begin)
        replay(self._image, decode_records(data[:committed_bytes]), begin)
        changes = self._image.changes_between(begin, self._image.end_offset)
        assert changes is not None, "deltas are kept from `begin` on"
        self._print(changes, leaders)

    def _print(self, changes: MetadataDelta, leaders_before: npt.NDArray[np.int16]) -> None:
        """Prints the changes of brokers, topics and leaders; `leaders_before` has broker rows by partition row."""
        brokers, table, created = self._image.brokers, self._image.table, changes.created_topics.values()
        for broker_id in sorted(changes.touched("brokers")):
            broker = brokers.get(broker_id)
            state = "unregistered" if broker is None else "fenced" if broker.fenced else "live"
            say(f"broker {broker_id} is {state}")
        for name in created:
            say(f"topic {name} is created, with {len(table.rows_of_topic(name))} partitions")
        for name in changes.deleted_topics.values():
            say(f"topic {name} is deleted")
        for row in changes.rows.tolist():
            partition, before = table.state(row), leaders_before[row] if row < len(leaders_before) else NO_LEADER
            if before != table.leader__p[row] and partition.topic not in created:
                before_id = NO_LEADER if before == NO_LEADER else brokers.ids[before]
                say(f"{partition.topic}-{partition.partition} is led by {partition.leader}, before by {before_id}")


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    given = address = host, int(port)
    follower = Follower()
    while True:
        try:
            with socket.create_connection(address, TIMEOUT_S) as connection, connection.makefile("rwb") as stream:
                address = follower.follow(stream) or given
            time.sleep(PAUSE_S)
        except OSError as error:
            say(f"{address[0]}:{address[1]}: {error}")
            address = given
            time.sleep(RETRY_S)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()

# Prints:
# a snapshot has 2 brokers, 1 topics, 1 partitions
# topic orders is created, with 2 partitions
# broker 1 is fenced
# orders-0 is led by 2, before by 1
# broker 1 is live
# topic payments is deleted
