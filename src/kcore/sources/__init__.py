"""Loads a cluster from any source that kcore knows: files of Kafka, ZooKeeper, running brokers, a shape file.

`load_cluster` takes the text of a source, as the option --cluster has it, and returns a ClusterImage. Every failure is
a ClusterFileError of one line that names the source. A source is only read: nothing is written to a cluster.

- `load`: which kind of source a text is, and `load_cluster`.
- `cluster_files`: shapes, ZooKeeper dumps, control requests, and metadata logs.
- `from_zookeeper`: the znodes of a running ZooKeeper.
- `from_brokers`: what the brokers of a running cluster answer to Metadata, DescribeConfigs and DescribeLogDirs.
"""
