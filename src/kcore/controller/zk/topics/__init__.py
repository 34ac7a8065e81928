"""Creates, grows, moves and deletes topics and their replicas.

- `topic_changes`: topics that others create, delete or grow in ZooKeeper, and changed settings.
- `assignments`: takes assignments from ZooKeeper into the table. `new_partitions`: the first states of partitions.
- `reassignment`: moves partitions to other brokers.
- `deletion`: deletes topics, in the parts of `deletion_steps`; `deletion_progress` has the state of the deletions.
"""
