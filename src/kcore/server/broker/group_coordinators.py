"""Finds the partition whose leader coordinates a group or a transaction (GroupCoordinator.partitionFor of 3.9.1)."""

from typing import Final

from kcore.constants import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kcore.java_hash import string_hash
from kcore.metadata.table.partition_table import PartitionTable

GROUPS: Final = 0  # The key types of FindCoordinator.
TRANSACTIONS: Final = 1
TOPICS: Final = {GROUPS: GROUP_METADATA_TOPIC, TRANSACTIONS: TRANSACTION_STATE_TOPIC}


def java_hash(text: str) -> int:
    """The absolute value of String.hashCode, as Utils.abs computes it."""
    value = string_hash(text)
    signed = value - (1 << 32) if value >> 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)


def coordinator_row(table: PartitionTable, key: str, key_type: int) -> int | None:
    """The row of the coordinator's partition of the internal topic; None if this topic does not exist yet."""
    topic = TOPICS.get(key_type)
    if topic is None or topic not in table.topics or not len(rows := table.rows_of_topic(topic)):
        return None
    found = rows[table.partition_index__p[rows] == java_hash(key) % len(rows)]
    return int(found[0]) if len(found) else None
