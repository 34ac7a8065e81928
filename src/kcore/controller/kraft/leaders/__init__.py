"""Leaders, ISRs and replicas of partitions: AlterPartition, elections, reassignments, directories.

A handler turns the partitions of a request into columns and sets the errors of the invalid ones. `kcore.replication`
decides about the valid ones, in as few bulk calls as their order allows.

- `named.py`: the partitions of a request as columns, and their split into bulk decisions.
- `isrs.py`: AlterPartition; `leader_elections.py`: ElectLeaders and periodic elections.
- `reassignments.py`: AlterPartitionReassignments, ListPartitionReassignments.
- `directories.py`: AssignReplicasToDirs.
"""
