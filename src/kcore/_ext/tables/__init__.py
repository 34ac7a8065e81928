"""Kernels over the columns of partition tables, and between these columns and records or znodes.

The wrappers of `kcore.metadata.table` own the arrays. They ensure that each row of brokers is packed, in range and
without duplicates. Kernels trust that, and change all columns of a row or none.

- `broker_rows`: checks rows of brokers.
- `partition_lookup`, `uuid_index`: find rows by keys.
- `broker_index`: finds the partition rows of a broker.
- `row_images`: copies rows, so that a revert can restore them.
- `change_columns.pxd`: the structs for the input and output of partition changes.
- `partition_frames`, `partition_replay`: apply records of the metadata log to rows.
- `record_values`: writes metadata records from columns.
- `znodes`: reads and writes the partitions' znodes of ZooKeeper mode.
"""
