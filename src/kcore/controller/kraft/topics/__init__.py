"""Creation and deletion of topics, and new partitions of existing topics.

A request for many topics is decided in parts. Each topic succeeds or fails independently. One PartitionCreations has
the partitions of all created topics.

- `creation.py`: CreateTopics; `deletion.py`: DeleteTopics; `growth.py`: CreatePartitions.
- `placing.py`: the replicas of new partitions; `created.py`: the records of new topics and partitions.
"""
