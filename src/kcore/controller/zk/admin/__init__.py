"""Handles the requests of administrators in ZooKeeper mode.

- `topics`: CreateTopics and DeleteTopics. `partitions`: CreatePartitions. `reassignments`: moves of replicas.
- `configs`: settings of topics and of the receiving node. `broker_configs`: the settings of BROKER resources.
- `quotas`, `acls`, `scram`, `tokens`: client quotas, ACLs, SCRAM credentials and delegation tokens.
- `features`: finalized features.
"""
