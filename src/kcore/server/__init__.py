"""The five servers: a state machine with its sockets, files and clock, as a process.

Each request passes the steps of `pipeline.py`, which are the same for all five servers. A route or the handlers of the
server get it, and pass it to the state machine. The server performs the outputs of the state machine, and answers.

- `quorum_node/`: a node of a KRaft quorum. `kraft_controller/`: the same node with a controller.
- `zk_controller/`: the ZooKeeper-mode controller. `zk_node/`: its common part with the ZooKeeper-mode broker.
- `broker/`: the common part of both brokers. `kraft_broker/`, `zk_broker/`: a broker of each mode.
- `security/`: authorization, request quotas and the audit log. `properties/`: server.properties. `metrics/`: metrics.
- `cluster_view.py`: Metadata and DescribeCluster. `answers.py`: truncates long messages.
- `request_parts.py`, `large_descriptions.py`: requests of many entries, handled in parts.
- `pipeline.py`: the steps of a request, and its routes. `envelopes.py`: requests that a broker has forwarded.

Brokers import nothing of controllers, and controllers nothing of brokers.
"""
