"""The files of a broker or a controller, read and written as Kafka does: logs, checkpoints, small files.

All access goes through `files.FileSystem`, so that a simulator can replace the disk. Files are replaced atomically, and
an error names the file.

- `files`: opens regular files only, reads bounded sizes, replaces files atomically
- `checkpoints`, `meta_properties`, `partition_metadata`, `properties`: the small files
- `log`: a partition's log and a broker's log directory
- `raft`: a controller's metadata log, its snapshots and its directory
- `tools`: `kcore dump` and `kcore diverge`
"""
