"""The state of a cluster in ZooKeeper: znodes, dumps and control requests, to and from columns.

- `znodes.py`: paths and data of all znodes, byte for byte as 3.9.1 writes them. `znode_json.py`: their JSON.
- `znode_topics.py`, `znode_states.py`: assignments and states of many partitions at once.
- `znode_brokers.py`, `znode_acls.py`, `znode_tokens.py`, `znode_names.py`: the other subjects.
- `znode_operations.py`: reads and conditional writes as data.
- `zookeeper_dump.py`: a dump of the tree as a cluster. `znode_image.py`: znodes as an image, with settings.
- `request_columns.py`: UpdateMetadata and LeaderAndIsr as a cluster. `merge.py`: merges an UpdateMetadata into a table.
"""
