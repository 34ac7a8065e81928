"""A user's program with every public name of kcore once: mypy --strict and pyright check it, and a test runs it."""

# pyright: strict

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import kcore
from kcore.schema import BrokerRegistrationChangeRecord, LeaderAndIsrRequest
from kcore.types import Uuid


def error_of(kind: type[kcore.KcoreError], action: Callable[[], Any]) -> str:
    """The sentence of the error that the action must raise."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def messages(table: kcore.PartitionTable) -> None:
    """Bytes, objects, columns and JSON."""
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=2, broker_epoch=3)
    data: bytes = kcore.encode(request, 7)
    assert kcore.decode(LeaderAndIsrRequest, 7, data).controller_epoch == 2
    again, end = kcore.wire.decode_from(LeaderAndIsrRequest, 7, data)
    assert (again, end) == (request, len(data)) and kcore.messages["LeaderAndIsrRequest"] is LeaderAndIsrRequest
    assert kcore.from_json("LeaderAndIsrRequest", 7, kcore.to_json(request, 7)) == request
    columns: kcore.wire.Columns = kcore.decode_columns("LeaderAndIsrRequest", 7, data)
    assert kcore.encode_columns(columns, 7) == data
    fanout: kcore.wire.Fanout = kcore.wire.encode_fanout(columns, 7)
    assert kcore.decode(LeaderAndIsrRequest, 7, fanout.bytes_for(broker_epoch=9)).broker_epoch == 9
    rows, names = kcore.wire.Rows(broker_id=[1], host_name=kcore.wire.Strings.of(["a"])), kcore.wire.Vectors
    assert isinstance(rows.column("host_name"), names) and kcore.Errors(3).name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_of(kcore.DecodeError, lambda: kcore.decode("LeaderAndIsrRequest", 7, b""))
    assert error_of(kcore.UnknownMessageError, lambda: kcore.decode("NoRequest", 7, b""))
    assert error_of(kcore.UnsupportedVersionError, lambda: kcore.encode(request, 99))
    assert error_of(kcore.EncodeError, lambda: kcore.encode(LeaderAndIsrRequest(controller_id=2**40), 7))
    assert kcore.zk.Broker(broker_id=1, broker_epoch=3).broker_epoch == 3 and len(table) == 200


def first_if_online(replicas: npt.NDArray[np.int16], in_sync: int, online: int) -> int:
    """An election rule: the first replica or none."""
    return 0 if online & 1 else -1


def decisions(table: kcore.PartitionTable) -> None:
    """Placement, elections, and a controller that decides them."""
    brokers: kcore.tables.BrokerTable = table.brokers
    assert kcore.tables.place("kafka-3.9", brokers.ids, 4, 3, seed=1).shape == (4, 3)
    assert error_of(kcore.PlacementError, lambda: kcore.tables.place("kafka-3.9", [1], 4, 3, seed=1))
    assert error_of(kcore.TableError, lambda: kcore.zk.elect(table, "offline", leaving=[99]))
    assert kcore.zk.elect_one("online", [1, 2], None, live=[1, 2], level="4.3.1") is None
    asked: kcore.whatif.WhatIf = kcore.what_if(table, release="4.3.1", min_isr=2)
    outcome: kcore.whatif.Outcome = asked.lose([7, 8])
    assert outcome.new_without_leader == 0 and len(asked.restart_plan().steps) <= 10
    controller = kcore.zk.ZkController(controller_id=0, controller_epoch=1, table=table)
    decision = controller.on_broker_failed(kcore.zk.BrokerFailed([7]))
    controller.replay(decision)
    controller.replay(controller.on_broker_started(kcore.zk.BrokerStarted(broker_id=7, broker_epoch=8)))
    controller.replay(controller.on_preferred_election(kcore.zk.PreferredElection()))
    controller.on_controlled_shutdown(kcore.zk.ControlledShutdown(broker_id=3, broker_epoch=-1))
    assert not (table.leader__p == brokers.row(7)).all()
    try:
        policy = kcore.zk.election_policy(first_if_online)
    except kcore.MissingExtraError as error:
        assert 'pip install "kcore[numba]"' in str(error)
    else:
        assert len(kcore.zk.elect(table, policy, rows=[0], leaving=[7])) <= 1


def logs(folder: Path) -> None:
    """Record batches, epochs, metadata, and replicas on disk."""
    batch = kcore.wire.encode_records(
        [kcore.wire.Record(offset=0, timestamp=1, value=b"a"), kcore.wire.Record(1, 2, b"k")]
    )
    batches: kcore.wire.RecordBatches = kcore.wire.scan_batches(batch)
    records: kcore.wire.Records = kcore.wire.decode_records(batch, batches)
    assert [record.value for record in records] == [b"a", None]
    tables = kcore.tables.EpochTables.of([[(0, 0), (1, 5)]], [9], [9])
    assert kcore.tables.end_offset_for_epoch(*tables.columns, [0])[1].tolist() == [5]
    assert kcore.tables.truncation_offsets(tables, tables).offsets.tolist() == [9]
    frame = kcore.wire.encode_metadata_record(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1), 1)
    record, _ = kcore.wire.decode_metadata_record(frame)
    image = kcore.tables.ClusterImage()
    assert error_of(kcore.TableError, lambda: image.apply(record))
    for name in ("a", "b", "__cluster_metadata-0"):
        (folder / name / "t-0").mkdir(parents=True)
        (folder / name / "t-0" / "00000000000000000000.log").write_bytes(batch)
    assert kcore.files.diverge(folder / "a" / "t-0", folder / "b" / "t-0", read="headers").offset is None
    assert [found.offset for found in kcore.files.diverge_log_dirs(folder / "a", folder / "b").values()] == [None]
    (folder / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(
        kcore.wire.encode_records([kcore.wire.Record(0, 1, value=frame)])
    )
    assert error_of(kcore.TableError, lambda: kcore.load_metadata(folder / "__cluster_metadata-0"))
    assert "1" in kcore.load_metadata(folder / "__cluster_metadata-0", stop=True).problem


def quorum() -> None:
    """A node of a quorum, sans I/O."""
    config = kcore.raft.RaftConfig("a-cluster", -1, Uuid(), {}, lambda n: 0)
    node = kcore.raft.RaftNode(config, kcore.raft.MemoryLog())
    node.start(None, now_ms=0)
    assert not node.leads


if __name__ == "__main__":
    partitions = kcore.generate(partitions=200, brokers=10, replication_factor=3, topics=10, seed=1)
    messages(partitions)
    decisions(partitions)
    with tempfile.TemporaryDirectory() as temporary:
        logs(Path(temporary))
    quorum()
    print(f"kcore {kcore.__version__}: every public name was used")
