"""The controller of a cluster whose state is the metadata log (Kafka's QuorumController). It has no code yet.

One process, one event loop, one state. A handler decides over the state of `kcore.metadata` and returns records and a
response; it changes nothing. The records are appended through the raft node's state machine seam, replayed at once, and
the response waits until they are committed. When the node no longer leads, the state is reverted to the last commit.

What goes where:

- `controller.py`: the state machine on the seam: events in, appends out, and responses that wait for an offset.
- `handlers.py`: event -> function, as data.
- `brokers/`: registration, heartbeats, fencing, controlled shutdown (ClusterControlManager, BrokerHeartbeatManager).
- `topics/`: creation, deletion, more partitions, reassignments (ReplicationControlManager).
- `leaders/`: elections, AlterPartition, eligible leader replicas, directories: decisions are `kcore.replication`'s.
- `admin/`: configurations, client quotas, ACLs, SCRAM, delegation tokens, features, producer ids.
- `slices.py`: long events (a million partitions created, a rack lost, a snapshot) cut into slices, so that heartbeats,
  fetches and votes are served in between.

Rules that both modes share are in `controller/rules/` and stay there.
"""
