"""A controller's metadata directory.

- `raft_dir`, `raft_format`, `quorum_state_file`: the directory, its formatting, the stored election
- `file_raft_log`, `raft_recovery`: the log of a raft node, and its recovery after a crash
- `raft_snapshots`, `snapshot`: the snapshots beside the log, and the format of one snapshot
- `metadata_log`: loads a folder of the metadata log as a cluster image
- `metadata_files`, `metadata_events`: the files of the metadata log; its records as a table of events
"""
