"""The metadata log of a raft node: record batches, control records, snapshots.

- `raft_log`, `memory_log`: the interface of a log, and a log in memory
- `batches`, `accumulator`: whole batches, and a leader's batch that is being filled
- `control_records`: records that raft itself writes and reads
- `snapshot_writing`, `snapshot_loading`, `cleaning`: snapshots written, loaded and deleted
- `stored_data`: checks the data of a log when its node starts
"""
