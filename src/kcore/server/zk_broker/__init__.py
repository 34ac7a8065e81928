"""A broker of a ZooKeeper cluster as a process, also while it migrates to KRaft.

The broker registers in ZooKeeper; its znode's czxid is the broker epoch. The controller sends LeaderAndIsr,
UpdateMetadata and StopReplica, which are checked, decoded into columns and applied to the replicas.

- `zk_broker_listener_settings.py`, `migration_settings.py`: read server.properties.
- `zk_broker_server.py`: the process; it joins the other modules.
- `zk_link.py`: the link to the controller, which changes when the broker migrates. `zk_registration.py`: the znode.
- `isr_writes.py`, `controlled_shutdown.py`: ISR changes before KIP-497, and the end of the broker.
- `control_request_receiver.py`: decodes control requests into columns, and applies them.
- `control_request_authorization.py`: checks the listener, the principal and the controller of control requests.
- `zk_broker_request_handlers.py`, `zk_security_requests.py`: the requests that only ZooKeeper-mode brokers answer.
- `node_admin.py`, `topic_settings.py`, `broker_throttles.py`: settings in ZooKeeper.
- `document_forwarding.py`: forwards mutations as KIP-590's document describes.
- `migration.py`: registers a migrating broker with the quorum.

Invariants: a control request is applied only if its sender is authorized and is the controller in ZooKeeper. A topic's
settings are read before a replica of the topic leads.
"""
