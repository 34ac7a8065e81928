"""Kernels that decide: which broker leads each partition, how its ISR changes, and where replicas go.

Candidates are partition rows; the result is a column for each field of the decision, with broker ids. Kernels never
change the table: replaying the records that follow from a decision does.

- `election_brokers.pxd`: brokers with their flags, and slots as bit masks.
- `election`: ZooKeeper-mode elections and ISR shrinks.
- `partition_change`: KRaft's partition changes; `change_builder.pxd` has the steps that few partitions need.
- `policies`: a user's own election rule, by Numba.
- `placement`: replica placement of new topics.
"""
