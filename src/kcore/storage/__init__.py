"""The files of a broker or a controller, read and written as Kafka does: logs, checkpoints, small files.

All access goes through `files.FileSystem`, so that a simulator can replace the disk. Small files are replaced
atomically, and every error names its file.

- `files`: opens regular files only, reads bounded sizes, replaces files atomically
- `checkpoints`, `meta_properties`, `partition_metadata`, `properties`: offsets and epochs, the node, the topic id, and
  Java's property files
- `uris`: opens the file systems of URIs, such as those of S3
- `log`: a partition's log and a broker's log directory
- `raft`: a controller's metadata log, its snapshots and its directory
- `tools`: `kcore dump` and `kcore diverge`
"""
