"""The controller of a cluster whose state is the metadata log (Kafka's QuorumController).

One process has one event loop and one state. A handler reads the state in `kcore.metadata` and returns records and a
response; it changes nothing. The controller appends the records through the raft node's state machine interface and
replays them at once. It sends the response when the records are committed. When the node stops leading, the state
reverts to the last commit.

- `controller.py`: the state machine: events in, appends and answers out; `outputs.py`: what it returns;
  `pending.py`: requests and tasks until their answers; `decision.py`: the result of a handler; `writing.py`: encodes a
  decision as batches and applies it; `activation.py`: the first records of an active controller.
- `handlers.py`: the table of requests and handlers; `kraft_context.py`: what handlers read;
  `kraft_controller_config.py`: the settings.
- `standby.py`: a controller that is not active.
- `periodic.py`, `tasks.py`: periodic tasks and their schedule; `log_lines.py`: the operator's log.
- `brokers/`: registration, heartbeats, fencing, controlled shutdown (ClusterControlManager, BrokerHeartbeatManager).
- `topics/`: creation, deletion, more partitions (ReplicationControlManager).
- `leaders/`: elections, AlterPartition, reassignments, directories; `kcore.replication` makes the decisions.
- `admin/`: configurations, client quotas, ACLs, SCRAM, delegation tokens, features, and requests about the cluster.
- `election_settings.py`: the settings of topics that elections read.
- `snapshot_loading.py`: loads a snapshot in slices, between other events.
- `departures.py`: where kcore deliberately differs from Kafka; `kafka_way/`: the code for departures that are switched
  back; `kraft_error_responses.py`: responses that name the active controller.

`kcore.node.kraft` has the parts that brokers use, too; `controller/rules/` has rules that both modes share.
"""
