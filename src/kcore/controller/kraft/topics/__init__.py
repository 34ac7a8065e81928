"""Topics and partitions: created, deleted, moved."""
