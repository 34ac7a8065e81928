"""Random records and batches, for hypothesis."""

from typing import Any

from hypothesis import strategies as st

from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.records import Record

BYTES = st.none() | st.binary(max_size=6) | st.integers(0, 300).map(bytes)
NAMES = st.binary(max_size=4).map(lambda name: name.decode("utf-8", "surrogateescape"))
CONTROL_KEYS = st.builds(lambda kind: b"\0\0" + kind.to_bytes(2, "big", signed=True), st.integers(-3, 9))


def rows(
    keys: st.SearchStrategy[Any] = BYTES, names: st.SearchStrategy[str] = NAMES
) -> st.SearchStrategy[list[Record]]:
    """Records whose offsets ascend."""
    headers = st.lists(st.tuples(names, BYTES), max_size=3).map(tuple)
    row = st.tuples(st.integers(1, 3), st.integers(-1, 2**41), keys, BYTES, headers)
    return st.lists(row, max_size=12).map(_ascending)


def _ascending(given: list[tuple[Any, ...]]) -> list[Record]:
    offsets = [sum(step for step, *_ in given[: end + 1]) for end in range(len(given))]
    return [Record(offset, *fields) for offset, (_, *fields) in zip(offsets, given, strict=True)]


def batches() -> st.SearchStrategy[bytes]:
    """Several batches: empty ones, control batches, LogAppendTime, with sequences, of every codec."""
    data = st.builds(
        encode_records,
        rows(),
        base_offset=st.just(0),
        codec=st.sampled_from(CODECS),
        log_append_time=st.booleans(),
        partition_leader_epoch=st.integers(-1, 9),
        base_sequence=st.sampled_from((-1, 0, 2**31 - 2)),
    )
    control = st.builds(encode_records, rows(CONTROL_KEYS), base_offset=st.just(0), control=st.just(True))
    return st.lists(data | control, max_size=5).map(b"".join)
