"""kcore's own part: `columns` (the column view and the decisions), `objects` (the object view), `memcpy` (the bound).

It calls what any user of the package calls, and each view runs in a process of its own, as the rivals do.
"""

import copy
import mmap
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from peer import REPEATS, Case, Message, read_lists, serve

import kcore
from kcore.wire.record_batch import crc32c, scan_batches

BROKERS = 100
FIRST_BROKER_ID = 1
FURTHER_BROKER_EPOCH = 381
EPOCHS = 20
KRAFT_LEVEL = "3.9-IV0@3.9.1"


class Columns(Case):
    """The column view of one request."""

    def __init__(self, operation: str, message: str, version: int, data: bytes) -> None:
        self.operation, self.message, self.version, self.data = operation, message, version, data
        if operation != "memory":
            self.columns = self.keep()
            self.partitions = len(self.columns.topic_states.partition_states)
            self.out = bytearray(len(data))
            self.fanout = kcore.wire.encode_fanout(self.columns, version)

    def keep(self) -> Any:
        return kcore.decode_columns(self.message, self.version, self.data)

    def run(self, round_: int) -> int:
        if self.operation == "decode":
            self.keep()
        elif self.operation == "encode":
            kcore.encode_columns(self.columns, self.version, out=self.out)
        elif self.operation == "fanout":
            self.fanout.buffers(FURTHER_BROKER_EPOCH)
        elif self.operation == "fanout_copy":
            self.fanout.bytes_for(FURTHER_BROKER_EPOCH)
        else:
            kcore.encode_columns(self.columns, self.version)
        return self.partitions

    def check(self) -> bytes:
        if self.operation == "encode":
            self.run(0)
            return bytes(self.out)
        if self.operation == "fanout":
            return b"".join(self.fanout.buffers(FURTHER_BROKER_EPOCH))
        if self.operation == "fanout_copy":
            return self.fanout.bytes_for(FURTHER_BROKER_EPOCH)
        return bytes(kcore.encode_columns(self.keep(), self.version))


class Objects(Case):
    """The object view of one request."""

    def __init__(self, operation: str, message: str, version: int, data: bytes) -> None:
        self.operation, self.gc_off = operation.removesuffix("_nogc"), operation.endswith("_nogc")
        self.message, self.version, self.data = message, version, data
        self.out = bytearray(len(data))
        if operation != "memory":
            self.decoded = self.keep()
            self.partitions = sum(len(topic.partition_states) for topic in self.decoded.topic_states)

    def keep(self) -> Any:
        return kcore.decode(self.message, self.version, self.data)

    def run(self, round_: int) -> int:
        if self.operation == "decode":
            self.keep()
        elif self.operation == "read":
            read_lists(self.keep())
        elif self.operation == "encode_fresh":
            kcore.encode(self.decoded, self.version)
        else:
            if self.operation == "fanout":
                self.decoded = copy.copy(self.decoded)
                self.decoded.broker_epoch = FURTHER_BROKER_EPOCH
            kcore.encode(self.decoded, self.version, out=self.out)
        return self.partitions

    def check(self) -> bytes:
        if self.operation in ("encode", "fanout"):
            self.run(0)
            return bytes(self.out)
        return bytes(kcore.encode(self.keep(), self.version))


class Memcpy(Case):
    """The cost of moving the request's bytes once."""

    def __init__(self, operation: str, message: str, version: int, data: bytes) -> None:
        self.fresh = operation in ("encode_fresh", "fanout_copy")
        self.data = np.frombuffer(data, np.uint8)
        self.out = np.empty_like(self.data)
        self.partitions = len(kcore.decode_columns(message, version, data).topic_states.partition_states)

    def run(self, round_: int) -> int:
        if self.fresh:
            self.data.copy()
        else:
            np.copyto(self.out, self.data)
        return self.partitions


def message(operation: str, name: str, version: int, shape: str, data: bytes) -> Message:
    """decode or encode of one case of the group `messages`: small ones as objects, big ones as columns."""
    objects = (kcore.decode, kcore.encode)
    decode, encode = objects if shape == "small" else (kcore.decode_columns, kcore.encode_columns)
    decoded, out = decode(name, version, data), bytearray(len(data))
    calls = {"decode": partial(decode, name, version, data), "encode": partial(encode, decoded, version, out)}

    def result() -> bytes:
        encode(decoded, version, out)
        return bytes(out)

    return Message(shape, calls[operation], result)


class Segment(Case):
    """Reading all batches of a segment, CRC checked; or only that CRC, over all of its bytes."""

    def __init__(self, operation: str, path: Path) -> None:
        with path.open("rb") as file:
            self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self.operation, self.kibibytes = operation, len(self.data) // 1024

    def run(self, round_: int) -> int:
        if self.operation == "batches":
            scan_batches(self.data)
        else:
            crc32c(self.data)
        return self.kibibytes

    def check(self) -> bytes:
        if self.operation == "crc":
            return crc32c(self.data).to_bytes(4, "big")
        batches = scan_batches(self.data)
        return batches.base_offset[batches.crc_matches].astype("<i8").tobytes()


class Election(Case):
    """One decision over a table; brokers take turns at being lost."""

    def __init__(self, kind: str, table: Any) -> None:
        self.table = table
        self.rows = np.arange(len(table), dtype=np.int32)
        decisions: dict[str, Callable[[int], Any]] = {
            "offline": lambda lost: kcore.zk.elect(table, "offline", leaving=(lost,)),
            "fence": lambda lost: kcore.kraft.elect(table, "online", leaving=(lost,), level=KRAFT_LEVEL),
            "preferred": lambda _: kcore.zk.elect(table, "preferred"),
            "scan": lambda _: kcore.zk.elect(table, "offline"),
            "full": lambda _: kcore.kraft.elect(
                table, "online", rows=self.rows, leaving=(FIRST_BROKER_ID,), level=KRAFT_LEVEL
            ),
        }
        self.decide, self.is_full = decisions[kind], kind in ("scan", "full")
        if kind == "scan":
            table.brokers.set_gone(int(table.brokers.ids[0]))

    def run(self, round_: int) -> int:
        changes = self.decide(FIRST_BROKER_ID + round_ % BROKERS)
        return max(1, len(self.table) if self.is_full else len(changes))

    def check(self) -> bytes:
        changes = self.decide(FIRST_BROKER_ID)
        counts = np.diff(changes.isr_offsets)
        heads = np.column_stack([changes.rows, changes.leaders, changes.leader_epochs, counts])
        before = np.repeat(changes.isr_offsets[:-1], 4)  # Each head goes in front of its ISR.
        return np.insert(changes.isr, before, heads.ravel()).astype("<i4").tobytes()


class Divergence(Case):
    """End offsets or the whole truncation exchange, for all partitions in one call."""

    def __init__(self, kind: str, rows: Any) -> None:
        side = 2 * EPOCHS + 1
        self.kind, self.partitions = kind, len(rows)
        self.leader = epoch_tables(rows[:, :side])
        self.follower = epoch_tables(rows[:, side : 2 * side], rows[:, -2])
        self.requested = rows[:, -1].astype(np.int32)

    def decide(self) -> Any:
        if self.kind == "end_offsets":
            return kcore.tables.end_offset_for_epoch(*self.leader.columns, self.requested)
        return kcore.tables.truncation_offsets(self.leader, self.follower)

    def run(self, round_: int) -> int:
        self.decide()
        return self.partitions

    def check(self) -> bytes:
        result = self.decide()
        first, second = result if self.kind == "end_offsets" else (result.offsets, result.rounds)
        return np.column_stack([first, second]).astype("<i8").tobytes()


def epoch_tables(side: Any, high_watermarks: Any = None) -> Any:
    """The tables of one side: 20 epochs, 20 start offsets and the log's end a row."""
    from kcore.replication.epochs import EpochTables

    return EpochTables(
        epochs=side[:, :EPOCHS].ravel(),
        starts=side[:, EPOCHS:-1].ravel(),
        row_offsets=np.arange(0, len(side) * EPOCHS + 1, EPOCHS),
        log_ends=side[:, -1],
        high_watermarks=high_watermarks,
    )


def table(directory: Path, shape: str) -> Any:
    """The cluster as a table; "x10" and "x100" repeat the uniform one."""
    repeats = int(shape[1:]) if shape.startswith("x") else 1
    path = directory / f"cluster.{'uniform' if repeats > 1 else shape}.i32"
    rows = np.tile(np.fromfile(path, "<i4").reshape(-1, 9), (repeats, 1))
    return kcore.PartitionTable.from_arrays(
        rows[:, 3:6],
        isr=rows[:, 6:9],
        leaders=rows[:, 0],
        leader_epochs=rows[:, 1],
        partition_epochs=rows[:, 2],
        brokers=kcore.tables.BrokerTable.from_arrays(np.arange(FIRST_BROKER_ID, FIRST_BROKER_ID + BROKERS)),
    )


def make(name: str, directory: Path) -> Case | None:
    words = name.split(":")
    if len(words) == 4:
        operation, api, version, shape = words
        data = (directory / f"{api}.{version}.{shape}.bin").read_bytes()
        if shape in REPEATS:
            return message(operation, api, int(version), shape, data)
        views = {"columns": Columns, "objects": Objects, "memcpy": Memcpy}
        return views[sys.argv[1]](operation, api, int(version), data)
    if words[-1] == "segment":
        return Segment(words[0], directory / "segment.log")
    if len(words) == 2:
        return Election(words[0], table(directory, words[1]))
    return Divergence(name, np.fromfile(directory / "epochs.i64", "<i8").reshape(-1, 4 * EPOCHS + 4))


if __name__ == "__main__":
    serve(make)
