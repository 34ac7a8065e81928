"""The slow twin of `kcore._ext.tables.broker_index`."""

Replicas = dict[int, list[int]]  # Partition row -> broker rows.


def rows(replicas: Replicas, broker_row: int) -> list[int]:
    """A partition is in the broker's list if the broker is among its replicas. The list ascends."""
    return sorted(row for row, brokers in replicas.items() if broker_row in brokers)
