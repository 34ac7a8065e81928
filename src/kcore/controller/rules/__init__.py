"""Rules that both modes of the controller share: pure functions, without a store, a log, a clock or a socket.

A rule takes values or tables and returns a decision, or raises Kafka's exception. `kcore.node` has the rules that
brokers use, too.

- `new_replicas.py`: the replicas of new partitions. `replica_assignments.py`: the replicas before, during and after a
  reassignment.
- `mutation_quotas.py`: controller_mutation_rate. `features.py`: which feature updates are refused.
"""
