"""A broker as a machine without sockets, files or a clock: the replicas that it holds, and the orders that change them.

- `replicas/`: the replicas of this broker. It takes the orders `become` (leader or follower), `stop` and `hold_only`,
  appends and reads records, follows leaders, proposes ISRs. Other brokers are known by a view of the cluster.
- `zk_control/`: in ZooKeeper mode the controller sends LeaderAndIsr, UpdateMetadata and StopReplica: their epochs are
  checked, then they become orders for the replicas and changes of the view.
- `metadata_delta/`: in KRaft mode deltas of the metadata log take the place of these requests.

`replicas/` imports neither of the other two, and they do not import each other.
"""
