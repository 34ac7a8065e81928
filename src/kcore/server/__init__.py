"""The five servers: a state machine with its sockets, files and clock, as a process.

A connection passes a request to the handlers of its server. The handlers authorize the request and pass it to the state
machine. The server performs the outputs of the state machine, and answers.

- `quorum_node/`: a node of a KRaft quorum. `kraft_controller/`: the same node with a controller.
- `zk_controller/`: the ZooKeeper-mode controller. `zk_node/`: its common part with the ZooKeeper-mode broker.
- `broker/`: the common part of both brokers. `kraft_broker/`, `zk_broker/`: a broker of each mode.
- `security/`: authorization, request quotas and the audit log. `properties/`: server.properties. `metrics/`: metrics.
- `cluster_view.py`: Metadata and DescribeCluster. `answers.py`: responses of controllers.
- `request_parts.py`, `large_descriptions.py`: requests of many entries, handled in parts.
- `checked_relay.py`, `envelopes.py`: requests that another node answers.

Brokers import nothing of controllers, and controllers nothing of brokers.
"""
