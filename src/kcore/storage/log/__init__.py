"""A partition's log on a disk, and a broker's log directory.

- `segment`, `indexes`, `partition_folder`: files that are read only
- `log_writer`, `live_segment`, `segmented_log`: a log that is appended to, read and truncated at once
- `live_log`, `log_directory`: the log of a broker's replica, and all logs of a directory
- `holes`, `continuity`: damage and gaps
- `producer_snapshot`, `last_reads`: state beside the segments, and caches
"""
