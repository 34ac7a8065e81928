"""A broker as a state machine without sockets, files or a clock: its replicas, and the orders that change them.

Events and the time come in as arguments. `take_outputs` returns what the server must do, in order.

- `replicas/`: appends and reads records, follows leaders, proposes ISRs. Its orders are `become` (leader or follower),
  `stop` and `hold_only`.
- `zk_control/`: ZooKeeper mode. Checks the epochs of LeaderAndIsr, UpdateMetadata and StopReplica, and turns them into
  orders for the replicas.
- `metadata_delta/`: KRaft mode. Turns changes of the metadata log into the same orders.
- `directories/`: KRaft mode. Places replicas in log directories, moves them, and reports their places.
- `lifecycle/`: KRaft mode. Registration, heartbeats and controlled shutdown.

`replicas/` imports none of the others. `zk_control/` and `metadata_delta/` do not import each other.
"""
