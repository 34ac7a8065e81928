"""The life of a KRaft broker, as the active controller sees it (KIP-631), without clock and sockets.

A broker registers with a new incarnation id, and gets a broker epoch: the offset of its registration in the metadata
log. From then on it sends heartbeats, each with the offset up to which it has applied the log. The controller answers
when the broker has caught up with its registration, unfences it when the broker asks for it, and lets it go when its
leaders are moved away. `states.py` has the states and their table; `machine.py` says what is sent when.

Invariants: at most one request is in flight, whatever fails or is asked for meanwhile (KAFKA-15950); a request that
failed is never repeated at once; a directory that failed is in every heartbeat until the process ends; no heartbeat
asks to be unfenced before the replicas are what the log says. Source: BrokerLifecycleManager of 4.3.1.
"""
