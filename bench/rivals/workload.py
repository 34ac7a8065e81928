"""Writes the inputs that every peer reads: requests as Kafka's bytes, the cluster behind them, epoch tables.

The encoder here handles these four messages only and shares no code with kcore or with any rival.
A peer that re-encodes a file to the same bytes has thus passed an independent check.
"""

import argparse
import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BROKERS = 100
FIRST_BROKER_ID = 1  # So that a broker's id is never its row.
REPLICATION_FACTOR = 3
PARTITIONS_A_TOPIC = 100
EPOCHS = 20
SEED = 380
CONTROLLER_EPOCH = 7
BROKER_EPOCH = (1 << 40) + 380
VERSIONS = {"LeaderAndIsrRequest": (7, 2), "UpdateMetadataRequest": (8, 5)}
FLEXIBLE_SINCE = {"LeaderAndIsrRequest": 4, "UpdateMetadataRequest": 6}

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


def cluster(partitions: int, shape: str, seed: int = SEED) -> Int32s:
    """Rows of leader, leader epoch, partition epoch, 3 replicas, 3 ISR members (padded with -1)."""
    random = np.random.default_rng(seed)
    first = random.permutation(np.arange(partitions) % BROKERS)
    # Two distinct steps from the first replica give three distinct brokers.
    steps = np.sort(random.integers(1, BROKERS - 1, (partitions, 2)), axis=1) + np.array([0, 1])
    replicas = FIRST_BROKER_ID + (first[:, None] + np.hstack([np.zeros((partitions, 1), np.int64), steps])) % BROKERS
    isr = replicas.copy()
    if shape == "mixed":
        isr = random.permuted(replicas, axis=1)
        isr[np.arange(REPLICATION_FACTOR) >= random.integers(1, REPLICATION_FACTOR + 1, partitions)[:, None]] = -1
        ordered = random.random(partitions) < 0.5  # Half of the full ISRs stay in assignment order.
        isr[ordered & (isr >= 0).all(axis=1)] = replicas[ordered & (isr >= 0).all(axis=1)]
    epochs = random.integers(0, 50, (partitions, 2))
    return np.hstack([isr[:, :1], epochs, replicas, isr]).astype(np.int32)


def epoch_tables(partitions: int, seed: int = SEED) -> Int64s:
    """Rows of leader epochs, starts, end; follower epochs, starts, end; high watermark; requested epoch.

    Each follower shares a prefix of its leader's history and then goes its own way.
    """
    random = np.random.default_rng(seed)
    shape = (partitions, EPOCHS)
    shared = random.integers(1, EPOCHS + 1, (partitions, 1))
    own = np.arange(EPOCHS) >= shared
    parts = []
    for largest in (3, 50):  # Steps between epochs, then between their start offsets.
        leader = random.integers(1, largest + 1, shape)
        follower = np.where(own, random.integers(1, largest + 1, shape), leader)
        parts.append((leader.cumsum(axis=1), follower.cumsum(axis=1)))
    (leader_epochs, follower_epochs), (leader_starts, follower_starts) = parts
    leader_end = leader_starts[:, -1:] + random.integers(1, 50, (partitions, 1))
    follower_end = follower_starts[:, -1:] + random.integers(1, 50, (partitions, 1))
    high_watermark = np.take_along_axis(leader_starts, shared - 1, axis=1)
    requested = random.integers(-1, leader_epochs[:, -1:] + 3)
    columns = [leader_epochs, leader_starts, leader_end, follower_epochs, follower_starts, follower_end]
    return np.hstack([*columns, high_watermark, requested]).astype(np.int64)


class Encoder:
    """One message and version of the four; fields in the order of Kafka's schema."""

    def __init__(self, message: str, version: int) -> None:
        self.leader_and_isr = message == "LeaderAndIsrRequest"
        self.version = version
        self.flexible = version >= FLEXIBLE_SINCE[message]
        self.tags = b"\0" if self.flexible else b""

    def size(self, count: int) -> bytes:
        """The length in front of an array."""
        return varint(count + 1) if self.flexible else struct.pack(">i", count)

    def string(self, text: str) -> bytes:
        return (varint(len(text) + 1) if self.flexible else struct.pack(">h", len(text))) + text.encode()

    def ints(self, values: list[int]) -> bytes:
        return self.size(len(values)) + struct.pack(f">{len(values)}i", *values)

    def partition(self, index: int, row: list[int]) -> bytes:
        leader, leader_epoch, partition_epoch = row[:3]
        isr = [broker for broker in row[6:] if broker >= 0]
        fixed = struct.pack(">4i", index, CONTROLLER_EPOCH, leader, leader_epoch)
        body = fixed + self.ints(isr) + struct.pack(">i", partition_epoch) + self.ints(row[3:6])
        if not self.leader_and_isr:
            return body + self.size(0) + self.tags  # No offline replicas.
        if self.version >= 3:
            body += self.size(0) * 2  # Nothing added, nothing removed.
        return body + b"\0" + (b"\0" if self.version >= 6 else b"") + self.tags  # isNew, LeaderRecoveryState

    def broker(self, broker: int) -> bytes:
        host, port = self.string(f"broker-{broker}.example"), struct.pack(">i", 9092)
        if self.leader_and_isr:
            return struct.pack(">i", broker) + host + port + self.tags
        endpoint = port + host + self.string("PLAINTEXT") + struct.pack(">h", 0) + self.tags
        return struct.pack(">i", broker) + self.size(1) + endpoint + self.string(f"rack-{broker % 3}") + self.tags

    def head(self) -> bytes:
        is_kraft = b"\0" if self.version >= 7 else b""
        type_ = b"\0" if self.leader_and_isr and self.version >= 5 else b""
        return struct.pack(">i", 0) + is_kraft + struct.pack(">iq", CONTROLLER_EPOCH, BROKER_EPOCH) + type_

    def request(self, rows: list[list[int]]) -> Iterator[bytes]:
        """The request's bytes, piece by piece."""
        topics = -(-len(rows) // PARTITIONS_A_TOPIC)
        has_topic_ids = self.flexible  # Versions 5 and 7 brought them; none of ours lies between.
        yield self.head() + self.size(topics)
        for topic in range(topics):
            name = f"topic-{topic:05d}"
            mine = rows[topic * PARTITIONS_A_TOPIC : (topic + 1) * PARTITIONS_A_TOPIC]
            topic_id = hashlib.sha256(name.encode()).digest()[:16] if has_topic_ids else b""
            states = b"".join(self.partition(index, row) for index, row in enumerate(mine))
            yield self.string(name) + topic_id + self.size(len(mine)) + states + self.tags
        ids = range(FIRST_BROKER_ID, FIRST_BROKER_ID + BROKERS)
        yield self.size(BROKERS) + b"".join(map(self.broker, ids)) + self.tags


def varint(value: int) -> bytes:
    """Kafka's unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def write(directory: Path, partitions: int, memory_partitions: int) -> None:
    """Write every input of one run; `memory_partitions` is the size of the request for the memory figure."""
    directory.mkdir(parents=True, exist_ok=True)
    for shape in ("uniform", "mixed"):
        rows = cluster(partitions, shape)
        rows.astype("<i4").tofile(directory / f"cluster.{shape}.i32")
        for message, versions in VERSIONS.items():
            for version in versions:
                write_request(directory, message, version, shape, rows)
    epoch_tables(partitions).astype("<i8").tofile(directory / "epochs.i64")
    write_request(directory, "LeaderAndIsrRequest", 7, "large", cluster(memory_partitions, "uniform"))


def write_request(directory: Path, message: str, version: int, shape: str, rows: Int32s) -> None:
    with (directory / f"{message}.{version}.{shape}.bin").open("wb") as out:
        out.writelines(Encoder(message, version).request(rows.tolist()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--memory-partitions", type=int, required=True)
    options = parser.parse_args()
    write(options.directory, options.partitions, options.memory_partitions)
