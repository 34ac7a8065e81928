"""Converts changes to Apache Arrow; brokers as ids."""

from kcore.extras import needs
from kcore.types import Int8s, Int32s

with needs("arrow"):
    import pyarrow as pa

CHANGES = pa.schema(
    [
        ("row", pa.int32()),  # of the partition, in the table of the decision
        ("leader", pa.int32()),  # -1: none
        ("isr", pa.list_(pa.int32())),
        ("leaderEpoch", pa.int32()),
        ("partitionEpoch", pa.int32()),
        ("leaderRecoveryState", pa.int8()),
    ]
)


def changes_as_arrow(
    rows: Int32s,
    leaders: Int32s,
    isr_offsets: Int32s,
    isr: Int32s,
    leader_epochs: Int32s,
    partition_epochs: Int32s,
    recovery: Int8s,
) -> pa.Table:
    """The columns of ChangeColumns, a row a change, with the fields of CHANGES; memory is shared."""
    lists = pa.ListArray.from_arrays(pa.array(isr_offsets), pa.array(isr))
    numbers = [pa.array(each) for each in (leader_epochs, partition_epochs, recovery)]
    return pa.Table.from_arrays([pa.array(rows), pa.array(leaders), lists, *numbers], schema=CHANGES)
