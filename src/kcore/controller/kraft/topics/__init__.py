"""Creation and deletion of topics, and new partitions of existing topics.

A request for many topics is decided in parts. Each topic succeeds or fails by itself; the partitions of all created
topics become one PartitionCreations.

- `creation.py`: CreateTopics; `deletion.py`: DeleteTopics; `growth.py`: CreatePartitions.
- `placing.py`: the replicas of new partitions; `created.py`: their records.
"""
