"""A broker as a process: the parts that ZooKeeper mode and KRaft mode share.

`BrokerRequestHandlers` gets a request from the pipeline, and calls the replicas of `kcore.broker`, or the handlers of
the mode. `BrokerRuntime.perform` performs the replicas' outputs: responses, fetchers, ISR changes, disk failures.

- `broker_runtime.py`: performs outputs and runs background tasks. `zk_broker/` and `kraft_broker/` have a process each.
- `cluster_link.py`: what a broker needs from its cluster; each mode implements it.
- `broker_listening.py`: the listeners. `controller_requests.py`: ISR changes and producer ids. `background_tasks.py`.
- `broker_request_handlers.py`: requests of clients and followers. `replica_requests.py`: those that wait for replicas.
- `broker_authorization.py`: checks of rights; refused topics are cut from requests and added to responses.
- `coordination.py`, `group_coordinators.py`: refusals of requests to group and transaction coordinators.
- `record_checks.py`: checks of large compressed batches in a thread.
- `topic_configs.py`, `topic_creation.py`: settings of topics, and topics that clients' requests create.
- `logs.py`: the logs of replicas, DescribeLogDirs. `log_directories.py`: log directories and their ids.
- `replica_moves.py`: moves of replicas between log directories.
- `broker_connections.py`: connections to brokers and to the active controller.
- `fetchers.py`, `transaction_verifier.py`: requests to leaders and to transaction coordinators.
- `forwarding.py`, `token_requests.py`: requests that the active controller answers, and those about tokens.

Invariants: outputs are performed in order. A request that waits for the controller never blocks other requests.
"""
