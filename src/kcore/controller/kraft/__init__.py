"""The controller of a cluster whose state is the metadata log (Kafka's QuorumController).

One process, one event loop, one state. A handler decides over the state of `kcore.metadata` and returns records and a
response; it changes nothing. The records are appended through the raft node's state machine seam, replayed at once, and
the response waits until they are committed. When the node no longer leads, the state is reverted to the last commit.

What goes where:

- `controller.py`: the state machine on the seam: events in, appends out, and responses that wait for an offset;
  `writing.py`: a decision as batches, and in the state; `activation.py`: the first records of an active controller.
- `periodic.py`, `tasks.py`: what the controller does by itself, and when; `log_lines.py`: what it tells an operator.
- `handlers.py`: event -> function, as data.
- `brokers/`: registration, heartbeats, fencing, controlled shutdown (ClusterControlManager, BrokerHeartbeatManager).
- `topics/`: creation, deletion, more partitions (ReplicationControlManager).
- `leaders/`: elections, AlterPartition, reassignments, directories: decisions are `kcore.replication`'s; `named.py`:
  the partitions that a request names as columns, and the order in which they are decided.
- `admin/`: configurations, client quotas, ACLs, SCRAM, delegation tokens, features, producer ids.
- `slices.py`: when a snapshot is due, and its batches in slices, so that heartbeats, fetches and votes are served in
  between.

Rules that both modes share are in `controller/rules/` and stay there.
"""
