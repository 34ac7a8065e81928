"""Decisions about partitions: who leads, who is in sync, where replicas go, where logs diverge.

A decision reads a table of `kcore.metadata.table` and a level, and returns changes as columns. It changes nothing:
the caller writes the changes as records or znodes and applies them. Kafka's rules differ between releases; `levels`
has every difference. Rules for one partition are stated in plain Python, the same rules for many in kernels.

- `levels`: the release whose rules a decision follows.
- `elect`: the public functions for elections in bulk; `elect_one` states the rules for one partition.
- `bulk_elections`, `zookeeper_elections`: candidates and brokers' flags; ZooKeeper mode's kinds of election.
- `partition_change`: KRaft's PartitionChangeBuilder for one partition.
- `kraft_changes`, `kraft_results`: PartitionChangeBuilder for many partitions, and its result.
- `kraft_events`, `kraft_moves`, `kraft_elections`: the KRaft controller's events, reassignments and kinds of election.
- `topic_settings`: the topics' settings that elections need.
- `placement`, `kraft_placement`, `java_random`: where new partitions go, with Java's random numbers and hash order.
- `policy`: election rules that users write.
- `epochs`, `divergence`: leader epochs and truncation.
- `raft_log`: whether the end of a follower's metadata log is valid, has diverged, or needs a snapshot. The response to
  the fetch is made in `raft/fetching.py`.
"""
