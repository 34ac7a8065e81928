"""What both modes of the controller share: pure rules, without a store, a log, a clock or a socket.

- `topic_configs.py`: a topic's settings: names, types, defaults, valid values; `config_operations.py`: what
  IncrementalAlterConfigs does to them.
- `new_replicas.py`: where the replicas of new partitions go; `replica_assignments.py`: the arithmetic of reassignments.
- `features.py`: which feature updates are refused.

The rule for names of topics is in `metadata/topic_names.py`: brokers apply it too.
"""
