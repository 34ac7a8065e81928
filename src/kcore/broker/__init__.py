"""A broker as a machine without sockets, files or a clock: what it holds, and who tells it what to hold.

- `replicas/`: the replicas of this broker. It knows `become` (leader or follower), `stop` and `hold_only`, appends and
  reads records, follows leaders, proposes ISRs. What it knows of the others is a view of the cluster.
- `zk_control/`: in ZooKeeper mode the controller sends LeaderAndIsr, UpdateMetadata and StopReplica: their epochs are
  checked, then replicas and view are told.
- `metadata_delta/`: in KRaft mode both are told by what has changed in the metadata log.

`replicas/` imports neither of the other two, and they do not import each other.
"""
