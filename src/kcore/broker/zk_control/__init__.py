"""The control requests of a ZooKeeper-mode controller to a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

- `control_requests.py`: checks with data from ZooKeeper whether the sender is the controller, then the epochs of
  controller and broker, then each partition's leader epoch and topic id. New states become orders for the replicas.
- `broker.py`: a broker that only stores the states and has no logs, for tests and hollow brokers.

Invariants: a request with an older controller epoch or broker epoch changes nothing. A partition's state is applied
only if it is newer than the stored state.
"""
