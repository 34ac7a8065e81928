"""A broker as a state machine without sockets, files or a clock: its replicas, and the orders that change them.

The server passes events and the time as arguments. `take_outputs` returns the operations that the server must perform,
in order.

- `replicas/`: appends and reads records, follows leaders, proposes ISRs. Its orders are `become` (leader or follower),
  `stop` and `hold_only`.
- `zk_control/`: ZooKeeper mode. Checks the epochs of LeaderAndIsr, UpdateMetadata and StopReplica, and turns them into
  orders for the replicas.
- `metadata_delta/`: KRaft mode. Turns changes of the metadata log into the same orders.
- `directories/`: KRaft mode. Places replicas in log directories, moves them, and reports their places.
- `lifecycle/`: KRaft mode. Registration, heartbeats and controlled shutdown.

`replicas/` imports no other package of the broker. `zk_control/` and `metadata_delta/` do not import each other.
"""
