"""Tables, columns, records and changes go to Arrow by themselves: PyCapsules that any library of Arrow's takes."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kcore
from kcore.errors import MissingExtraError
from kcore.wire import record_arrow
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records

TABLE = kcore.PartitionTable.from_arrays([[1, 2], [2, 1]])
RECORDS = decode_records(
    encode_records([Record(5, 10, b"k", b"v", (("h", None), ("i", b"j"))), Record(7, 11, None, b"w", (("k", b""),))])
)
GIVERS: dict[str, tuple[Any, list[str]]] = {
    "PartitionTable": (TABLE, ["topic", "partition", "leader", "replicas"]),
    "ZooKeeperElections": (kcore.zk.elect(TABLE, "offline", leaving=[1]), ["row", "leader", "isr", "leaderEpoch"]),
    "KraftElections": (kcore.kraft.elect(TABLE, "online", leaving=[1]), ["row", "leader", "isr", "leaderEpoch"]),
    "Columns": (kcore.wire.Columns("ControlledShutdownRequest", broker_id=3), ["broker_id"]),
    "Records": (RECORDS, ["batchPosition", "partitionLeaderEpoch", "offset", "timestamp"]),
}
ANY_GIVER = pytest.mark.parametrize(("giver", "names"), GIVERS.values(), ids=GIVERS)


@ANY_GIVER
def test_a_stream_is_what_to_arrow_gives(giver: Any, names: list[str]) -> None:
    taken = pa.table(giver)  # By __arrow_c_stream__, as every consumer of PyCapsules.
    given = giver.to_arrow()
    assert taken == (pa.Table.from_batches([given]) if isinstance(given, pa.RecordBatch) else given)
    assert taken.schema.names[: len(names)] == names and taken.num_rows == len(giver)


@ANY_GIVER
def test_without_pyarrow_the_extra_is_named(giver: Any, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith("kcore.") and name.endswith("arrow")]:
        monkeypatch.delitem(sys.modules, name)
    calls: tuple[Callable[[], Any], ...] = (giver.to_arrow, giver.__arrow_c_stream__)
    for call in calls:
        with pytest.raises(MissingExtraError, match=r'Arrow needs pyarrow: pip install "kcore\[arrow\]"') as error:
            call()
        assert error.value.name == "pyarrow" and isinstance(error.value, ImportError)


def test_the_rows_of_changes() -> None:
    rows = kcore.zk.elect(TABLE, "offline", leaving=[1]).to_arrow().to_pylist()
    common = {"leader": 2, "isr": [2], "leaderEpoch": 1, "partitionEpoch": 0, "leaderRecoveryState": 0}
    assert rows == [{"row": 0} | common, {"row": 1} | common]


def test_the_rows_of_records() -> None:
    first, second = RECORDS.to_arrow().to_pylist()
    assert (first["offset"], first["key"], first["value"]) == (5, b"k", b"v")
    assert first["headers"] == [{"key": "h", "value": None}, {"key": "i", "value": b"j"}]
    assert (second["key"], second["headers"]) == (None, [{"key": "k", "value": b""}])
    assert kcore.wire.decode_records(b"").to_arrow().num_rows == 0


def test_records_come_in_batches_of_some_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_arrow, "BYTES_AT_ONCE", 104)
    given = [Record(k, 0, None, bytes([k]) * size, (("n", bytes([k])),)) for k, size in enumerate((60, 40, 1, 300, 0))]
    made = decode_records(encode_records(given, codec="zstd"))
    assert [len(batch) for batch in pa.RecordBatchReader.from_stream(made)] == [2, 1, 1, 1]
    rows = [row for batch in pa.RecordBatchReader.from_stream(made) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [each.value for each in given]
    assert [row["headers"][0]["value"] for row in rows] == [bytes([k]) for k in range(5)]
    assert np.array_equal([row["offset"] for row in rows], made.offset)
