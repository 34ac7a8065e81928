"""Kernels that decide: which broker leads each partition, how its ISR changes, and where replicas go.

Candidates are partition rows. The result is a column for each field of the decision, with broker ids. Kernels never
change the table; the table changes when the records of the decision are replayed.

- `election_brokers.pxd`: brokers with their flags, and slots as bit masks.
- `election`: ZooKeeper-mode elections and ISR shrinks.
- `partition_change`: KRaft's partition changes, with all steps that most partitions need.
- `change_builder.pxd`: all steps of a partition change, for partitions with targets, reassignments or ELRs.
- `policies`: calls a user's own election rule, which Numba compiles.
- `placement`: replica placement of new topics.
"""
