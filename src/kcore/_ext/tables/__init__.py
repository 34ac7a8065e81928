"""Kernels over the columns of partition tables, and between these columns and records or znodes.

A wrapper of `kcore.metadata.table` owns the arrays, which keep their rows packed, in range and without duplicates;
kernels trust them and change a row wholly or not at all.

- `broker_rows`: checks rows of brokers.
- `partition_lookup`, `uuid_index`: from keys to rows.
- `broker_index`: from a broker to its partition rows.
- `row_images`: copies of rows, from which a revert restores them.
- `change_columns.pxd`: the input and output of partition changes.
- `partition_frames`, `partition_replay`: from the bytes of the metadata log into rows.
- `record_values`: from columns to metadata records.
- `znodes`: the partitions' znodes of ZooKeeper mode.
"""
