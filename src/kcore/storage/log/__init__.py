"""A partition's log on a disk, and a broker's log directory.

- `segment`, `indexes`, `partition_folder`: a segment, its indexes and a partition's folder, read without changes
- `log_writer`, `live_segment`, `segmented_log`: a log in use: the writer, one segment, and all segments together
- `live_log`, `log_directory`: the log of a broker's replica, and all logs of a directory
- `folder_work`: topic ids that a thread writes, and folders that it deletes
- `holes`, `continuity`: damage that is found when a log is opened, and gaps between batches or files
- `producer_snapshot`, `last_reads`: the stored state of producers, and caches of reads and appends
"""
