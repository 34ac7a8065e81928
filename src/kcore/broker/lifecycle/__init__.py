"""The lifecycle of a KRaft broker: registration, heartbeats, controlled shutdown (KIP-631), without clock and sockets.

A broker registers with a new incarnation id, and gets a broker epoch: the offset of its registration in the metadata
log. From then on it sends heartbeats, each with the offset up to which it has applied the log. The controller answers
when the broker has caught up with its registration, unfences it on request, and lets it shut down when other brokers
lead its partitions.

- `registration_fields.py`, `heartbeat_fields.py`: fields of registrations, and of heartbeats by version.
- `machine.py`: the states and their transitions as a table, and the requests that the broker sends in each state.

Invariants:
- At most one request is in flight (KAFKA-15950).
- A failed request is repeated only after the heartbeat interval.
- Every heartbeat lists the directories that failed since the start.
- No heartbeat asks to be unfenced before the replicas are in the state of the metadata log.

Source: BrokerLifecycleManager of 4.3.1.
"""
