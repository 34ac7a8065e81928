"""The state of a KRaft cluster: Kafka's MetadataImage, changed in place by records.

Each record is applied once, in the log's order. The recorder sees each change before it is made: the journal can then
revert uncommitted batches, and the log of deltas shows what changed between two offsets. A snapshot is written in
slices from a frozen copy, while the image continues to change.

- `image`: the public class, which applies one record; `image_state` has its tables, dicts and recording.
- `image_topics`, `image_brokers`, `image_settings`: the effects of records, by subject. `image_settings` also has those
  of features, security and ZkMigrationStateRecord.
- `replay`: many records in bulk; `transactions`: records that take effect together.
- `recorder`: records changes. `journal`: reverts them. `delta`: what changed between two offsets.
- `table_names`, `image_tables`, `image_arrow`: the image's parts as tables by name, and as Apache Arrow.
- `image_writer`: writes a frozen copy as a snapshot. `image_records`: the records of its small parts.
"""
