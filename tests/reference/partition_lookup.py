"""The slow twin of `kcore._ext.tables.partition_lookup`."""


def row_of(rows: dict[tuple[int, int], int], topic_row: int, partition: int) -> int:
    """The row of the topic's partition; -1 if it was never added, or removed."""
    return rows.get((topic_row, partition), -1)


def rows_of_topic(rows: dict[tuple[int, int], int], topic_row: int) -> list[int]:
    """The rows of all partitions of the topic, by partition index."""
    return [rows[key] for key in sorted(rows) if key[0] == topic_row]
