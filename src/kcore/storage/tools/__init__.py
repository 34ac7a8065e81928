"""Tools that read Kafka's files: `kcore dump` and `kcore diverge`.

- `dump`, `dump_beside`, `coordinator_records`, `record_rows`: the output of kafka-dump-log, and records as Arrow
- `diverge`, `diverge_dirs`: the first difference between two replicas
- `foreign`: recognises files of other formats
"""
