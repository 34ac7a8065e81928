"""The parts of a process of ZooKeeper mode that its broker and its controller share.

- `watched_settings.py`: the settings that a node follows.
- `notification_watcher.py`: rereads data in ZooKeeper when notifications name it. The data is in
  `acl_reader.py`, `credentials.py` and `client_quotas.py` (request_percentage; connection_creation_rate).
- `relay.py`: requests that a live broker serves in the node's place.
- `document_routing.py`: mutations as KIP-590's document routes them.
"""
