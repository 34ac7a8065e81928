"""A node of a cluster whose state is in ZooKeeper: the requests of administrators that brokers and controllers answer.

Functions here are generators of effects (`znode_steps.py`), which the server of the node performs.

- `znode_steps.py`: reads and writes znodes, pauses, and logs; `notices.py`: what is logged.
- `acls.py`: the node's copy of the ACLs, and the authorizer; `znode_quotas.py`: its copy of a quota.
- `admin/`: requests about settings, quotas, ACLs, SCRAM credentials and delegation tokens.
- `requester.py`: the client of a request. `inter_broker_protocol.py`: the order of protocol versions.
"""
