"""The replicas of one broker, independent of the source of its orders.

An order (`ReplicaManager.become`, `stop`, `hold_only`) changes a replica's role by the table in `replica.py`. Handlers
of requests read and append; some requests wait. `take_outputs` returns the operations of the server, in order.

- `replica.py`, `partition.py`: a replica's state and roles, and a leader's ISR and high watermark.
- `log.py`, `appending.py`: the interface of a log, and appends of leaders and followers.
- `log_validator.py`, `producers.py`, `transactions.py`: checks of records, producers' sequences, transactions.
- `producing.py`, `markers.py`: Produce, the check of its transaction, and WriteTxnMarkers.
- `fetching.py`: the leader's side of Fetch. `fetch_sessions.py`: incremental sessions, and the response's partitions.
- `offsets.py`, `deleting.py`, `describing.py`: ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers.
- `waiting.py`: requests that wait, and the interfaces to the replicas that handlers use.
- `fetcher.py`: the follower's side of Fetch. `replication_quota.py`: throttles of replicas.
- `isr_changes.py`: AlterPartition requests of leaders.
- `cluster_view.py`, `broker_config.py`, `outputs.py`: the metadata cache, settings, outputs.
- `replica_manager.py`: joins all of these.

Invariants:
- A partition has at most one log.
- A response is sent only when its effects are in the log.
- The high watermark rises only to an offset below which every ISR member has all records.
- Until the controller answers an ISR change, commits need the members of the old and of the new ISR (KIP-497).
"""
