"""For arbitrary arguments public functions raise a KcoreError, never a bare TypeError."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.metadata.table.changes import KraftChanges
from kcore.schema import FetchRequest
from kcore.wire.record_building import encode_batches

WILD: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 2**31, 2**63, 2**100, 5.5, float("nan"), "", "x", "\ud800", "7", b"", b"\xff" * 9),
    *([], [1], [1, 1], [-5], [[1]], [[1], [1, 2]], ["x"], [None], [2**100], {}, {"a": 1}, {1: [2]}, {1: 2}, (), (1, 2)),
    *(object(), object, print, FetchRequest, FetchRequest(), bytearray(3), memoryview(b"abc")[::2], 1j, ...),
    *(np.zeros(3), np.zeros(0), np.zeros((2, 2), np.int32), np.array("x"), np.array(None), np.float64(3), np.int64(2)),
    *(np.array([1, 2]), np.array([True, False]), np.arange(6, dtype=np.uint8)[::2], slice(3), range(3), {1, 2}),
)

TABLE = kcore.generate(partitions=12, brokers=4, replication_factor=3, topics=2, seed=1)
COLUMNS = kcore.wire.Columns("FetchRequest", max_wait_ms=3)
BATCH = kcore.wire.encode_records([kcore.wire.Record(1, 2, b"k", b"v", (("h", None),))])
OLD_MESSAGE = bytes.fromhex("00000000000000000000000ea7ec68030000ffffffffffffffff")
RECORDS = kcore.wire.decode_records(BATCH)
EPOCHS = kcore.tables.EpochTables.of([[(0, 0), (2, 10)]], [20], [5])
CHANGES = kcore.kraft.elect(TABLE, "online", leaving=[1])


def table() -> kcore.PartitionTable:
    return TABLE.copy()


def topics(**given: Any) -> bytes:
    columns = kcore.wire.Columns("FetchRequest", topics=kcore.wire.Rows(**given))
    assert repr(columns)
    _ = columns == columns
    return kcore.encode_columns(columns, 4)


def strings(**given: Any) -> Any:
    made = kcore.wire.Strings(**given)
    return len(made), list(made), made.tolist(), repr(made), made == made


def vectors(**given: Any) -> Any:
    made = kcore.wire.Vectors(**given)
    return len(made), list(made), repr(made), made == made


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "decode": (kcore.decode, {"message": "FetchRequest", "version": 4, "data": bytes(21), "dialect": None}),
    "decode_from": (kcore.wire.decode_from, {"message": "FetchRequest", "version": 4, "data": bytes(21), "offset": 0}),
    "encode": (kcore.encode, {"message": FetchRequest(), "version": 4, "out": None, "dialect": None}),
    "decode_columns": (kcore.decode_columns, {"name": "FetchRequest", "version": 4, "data": bytes(21)}),
    "encode_columns": (kcore.encode_columns, {"columns": COLUMNS, "version": 4, "out": None}),
    "to_json": (kcore.to_json, {"message": FetchRequest(), "version": 4, "dialect": None}),
    "from_json": (kcore.from_json, {"name": "ControlledShutdownRequest", "version": 0, "obj": {"brokerId": 1}}),
    "encode_fanout": (kcore.wire.encode_fanout, {"columns": COLUMNS, "version": 4, "client_id": None}),
    "fanout": (kcore.wire.encode_fanout(COLUMNS, 4).bytes_for, {"broker_epoch": 1, "correlation_id": 2}),
    "decode_metadata_record": (kcore.wire.decode_metadata_record, {"data": b"\1\2\0"}),
    "encode_metadata_record": (kcore.wire.encode_metadata_record, {"record": FetchRequest(), "version": 0}),
    "Columns": (
        kcore.wire.Columns,
        {"message": "FetchRequest", "max_wait_ms": 1, "cluster_id": "c"},
    ),
    "Columns of topics": (
        topics,
        {
            **{"row_offsets": np.array([0, 1], np.int32), "valid": None, "topic": kcore.wire.Strings.of(["t"])},
            "partitions": kcore.wire.Rows(np.array([0, 1], np.int32), partition=np.zeros(1, np.int32)),
        },
    ),
    "Strings": (strings, {"offsets": np.array([0, 1], np.int32), "values": np.zeros(1, np.uint8), "valid": None}),
    "Vectors": (vectors, {"offsets": np.array([0, 1], np.int32), "values": np.zeros(1, np.int32), "valid": None}),
    "Strings.of": (kcore.wire.Strings.of, {"texts": ["a"]}),
    "scan_batches": (kcore.wire.scan_batches, {"data": BATCH, "start": 0, "limit": 1}),
    "decode_records": (kcore.wire.decode_records, {"data": BATCH, "batches": None, "max_bytes": 100}),
    "scan_message_sets": (kcore.wire.scan_message_sets, {"data": OLD_MESSAGE, "start": 0, "limit": 1}),
    "decode_message_sets": (
        kcore.wire.decode_message_sets,
        {"data": OLD_MESSAGE, "batches": None, "max_bytes": 100},
    ),
    "encode_records": (
        kcore.wire.encode_records,
        {
            **{"records": [kcore.wire.Record(0, 0)], "base_offset": 0, "last_offset_delta": 0, "base_timestamp": 0},
            **{"max_timestamp": 0, "codec": "none", "level": None, "partition_leader_epoch": 0, "producer_id": 0},
            **{"producer_epoch": 0, "base_sequence": 0},
        },
    ),
    "Record": (
        lambda **fields: kcore.wire.encode_records([kcore.wire.Record(**fields)]),
        {"offset": 0, "timestamp": 0, "key": b"", "value": b"", "headers": (("h", b""),)},
    ),
    "encode_batches": (encode_batches, {"records": RECORDS, "codec": "gzip", "level": 1}),
    "generate": (
        kcore.generate,
        {"partitions": 6, "brokers": 3, "replication_factor": 2, "topics": 2, "seed": 1, "racks": None},
    ),
    "place": (
        kcore.tables.place,
        {
            **{"kind": "kafka-3.9", "brokers": [1, 2], "partitions": 2, "replication_factor": 1, "racks": None},
            **{"start": 0, "seed": 1, "start_partition": 0, "fenced": None},
        },
    ),
    "elect": (
        kcore.kraft.elect,
        {
            **{"table": TABLE, "kind": "online", "rows": None, "leaving": (), "unclean": None, "level": None},
            **{"min_isr": 1, "elr": False},
        },
    ),
    "elect in ZooKeeper mode": (
        kcore.zk.elect,
        {"table": TABLE, "kind": "offline", "rows": None, "leaving": (), "unclean": None, "level": "3.9.1"},
    ),
    "BrokerTable.from_arrays": (
        kcore.tables.BrokerTable.from_arrays,
        {"ids": [1, 2], "live": None, "shutting_down": None, "epochs": None, "racks": None, "endpoints": None},
    ),
    "PartitionTable.from_arrays": (
        kcore.PartitionTable.from_arrays,
        {
            **dict.fromkeys(("isr", "leaders", "leader_epochs", "partition_epochs", "controller_epochs", "topics")),
            **dict.fromkeys(("leader_recovery_states", "topic_rows", "partition_indexes", "brokers", "adding")),
            **dict.fromkeys(("removing", "directories", "elr", "last_known_elr")),
            "replicas": [[1, 2], [2, 1]],
        },
    ),
    "from_zookeeper_dump": (kcore.PartitionTable.from_zookeeper_dump, {"text": ""}),
    "from_columns": (kcore.PartitionTable.from_columns, {"columns": COLUMNS}),
    "apply": (lambda **given: table().apply(**given), {"changes": CHANGES, "controller_epoch": 1}),
    "set_replicas": (
        lambda **given: table().set_replicas(**given),
        {"rows": [0], "replicas": [[1, 2, 3]], "adding": None, "removing": None},
    ),
    "add_topic": (
        lambda **given: table().add_topic(**given),
        {"name": "n", "replicas": [[1, 2]], "topic_id": kcore.types.ZERO_UUID, "controller_epoch": 0},
    ),
    "add_partitions": (
        lambda **given: table().add_partitions(**given),
        {"name": "topic-00000", "replicas": [[1, 2]], "first_partition": None, "controller_epoch": 0},
    ),
    "remove_topic": (lambda **given: table().remove_topic(**given), {"name": "topic-00000"}),
    "row_of": (TABLE.row_of, {"topic": "topic-00000", "partition": 1}),
    "rows_of": (TABLE.rows_of, {"topic_rows": [0], "partitions": [0]}),
    "state": (TABLE.state, {"row": 0}),
    "states": (lambda **given: list(TABLE.states(**given)), {"rows": [0]}),
    "under_min_isr": (TABLE.under_min_isr, {"min_isr": 1}),
    "end_offset_for_epoch": (
        kcore.tables.end_offset_for_epoch,
        {"epochs": [0, 2], "starts": [0, 10], "row_offsets": [0, 2], "log_ends": [20], "requested": [1]},
    ),
    "truncation_offsets": (kcore.tables.truncation_offsets, {"leader": EPOCHS, "follower": EPOCHS}),
    "broker row": (TABLE.brokers.row, {"broker_id": 1}),
    "broker rows": (TABLE.brokers.rows, {"broker_ids": [1]}),
    "register": (
        lambda **given: table().brokers.register(**given),
        {"broker_id": 1, "epoch": 2, "rack": None, "endpoints": ()},
    ),
    "set_fenced": (lambda **given: table().brokers.set_fenced(**given), {"broker_id": 1, "fenced": True}),
    "set_live": (lambda **given: table().brokers.set_live(**given), {"broker_ids": [1]}),
    "set_gone": (lambda **given: table().brokers.set_gone(**given), {"broker_id": 1}),
    "load_metadata": (kcore.load_metadata, {"path": "nowhere"}),
    "diverge": (kcore.files.diverge, {"folder_a": "nowhere", "folder_b": "nowhere", "read": "bytes"}),
    "diverge_log_dirs": (
        kcore.files.diverge_log_dirs,
        {"log_dir_a": "nowhere", "log_dir_b": "nowhere", "read": "bytes"},
    ),
    "what_if": (
        kcore.what_if,
        {"cluster": TABLE, "release": None, "unclean": None, "min_isr": None, "elr": None},
    ),
    "lose": (
        kcore.what_if(TABLE).lose,
        {"brokers": [1], "racks": (), "directories": (), "name": ""},
    ),
    "outcome": (kcore.what_if(TABLE).outcome, {"scenario": kcore.whatif.Scenario.of([1])}),
    "may_restart_together": (kcore.what_if(TABLE).may_restart_together, {"brokers": [1, 2]}),
    "after_reassignment": (kcore.what_if(TABLE).after_reassignment, {"text": "{}"}),
    "EpochTables.of": (kcore.tables.EpochTables.of, {"tables": [[(0, 0)]], "log_ends": [5]}),
    "election_policy": (kcore.zk.election_policy, {"function": None}),
    "Uuid": (kcore.types.Uuid, {"value": bytes(16)}),
}


@pytest.mark.parametrize(("call", "given"), CALLS.values(), ids=CALLS)
def test_every_exception_is_ours(call: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """One argument at a time is wild; the others are as they should be."""
    bare = []
    for name in given:
        for value in WILD:
            try:
                call(**{**given, name: value})
            except (kcore.KcoreError, OSError):  # An OSError is the operating system's answer for a path.
                pass
            except Exception as error:
                bare.append(f"{name}={value!r:.60}: {type(error).__name__}: {error}")
    assert bare == []


def test_the_sweep_sees_changes() -> None:
    assert isinstance(KraftChanges(np.array([0], np.int32)), KraftChanges) and len(CHANGES)


def test_what_the_errors_say() -> None:
    sizes = {"partitions": 6, "brokers": 3, "replication_factor": 2, "topics": 2, "seed": 1}
    for wrong, message in (
        ({"partitions": 5, "topics": 10}, "5 partitions are too few for 10 topics: each topic has at least one"),
        ({"partitions": 5.5}, "partitions must be a whole number, not 5.5"),
        ({"seed": -1}, "seed must be from 0 to 18446744073709551615, not -1"),
    ):
        with pytest.raises(kcore.TableError, match=f"^{message}$"):
            kcore.generate(**sizes | wrong)  # type: ignore[arg-type]
    with pytest.raises(kcore.TableError, match="leaving is a list of broker ids, not 7"):
        kcore.zk.elect(TABLE, "offline", leaving=7)  # type: ignore[call-overload]
    with pytest.raises(
        kcore.UnknownMessageError, match=r"no message is called 'FetchReqest'; did you mean 'FetchRequest'\?"
    ):
        kcore.decode("FetchReqest", 4, b"")
