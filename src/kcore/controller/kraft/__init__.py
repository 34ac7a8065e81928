"""The controller of a cluster whose state is the metadata log (Kafka's QuorumController).

One process has one event loop and one state. A handler reads the state in `kcore.metadata` and returns records and a
response; it changes nothing. The active controller appends the records through the raft node's state machine interface
and replays them at once. It sends the response when the records are committed. When its node stops leading, the state
reverts to the last commit, and every pending request is answered NOT_CONTROLLER. When the node refuses an append,
because it has written a control record first, the refused decision and all later decisions are made again.

                     on_leader
    Standby ───────────────────────▶ Active ── Pipeline: the decisions from their requests to their answers
            ◀───────────────────────
                     on_resigned
    on_committed: replays records    on_committed: answers requests
    on_snapshot: loads a snapshot    on_refused: decides again

- `controller.py`: the state machine: events in, appends and answers out. It has one of both roles, and the state that
  outlives them: `controller_state.py`, `snapshot_state.py`. `outputs.py`: what events return.
- `active.py`, `standby.py`: the roles. `activation.py`: the first records of an active controller.
- `pipeline.py`: the decisions in progress, and their invariants; `pending.py`: one of them; `decision.py`: the result
  of a handler; `writing.py`: encodes a decision as batches and applies it.
- `handlers.py`: the table of requests and handlers; `kraft_context.py`: what handlers read;
  `kraft_controller_config.py`: the settings.
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
