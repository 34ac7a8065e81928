"""The slow twin of `kcore._ext.columns.record_framing`: batches from the encoder of any record."""

from kcore.wire.record_building import encode_records
from kcore.wire.records import Record


def batches(values: list[bytes], base_offset: int, epoch: int, time_ms: int, most_bytes: int) -> list[bytes]:
    """As many values to a batch as fit, at least one."""
    found: list[bytes] = []
    begin = 0
    while begin < len(values):
        end = begin + 1
        batch = one(values[begin:end], base_offset + begin, epoch, time_ms)
        while (
            end < len(values)
            and len(more := one(values[begin : end + 1], base_offset + begin, epoch, time_ms)) <= most_bytes
        ):
            batch, end = more, end + 1
        found.append(batch)
        begin = end
    return found


def one(values: list[bytes], base_offset: int, epoch: int, time_ms: int) -> bytes:
    """A batch of these."""
    rows = [Record(base_offset + k, time_ms, None, value) for k, value in enumerate(values)]
    return encode_records(rows, partition_leader_epoch=epoch)
