"""The state of a cluster as columns, and the records and znodes that change it.

Records of the metadata log or znodes of ZooKeeper go in, and change the tables of partitions, topics, brokers and
directories in place. Decisions read these tables. Invariants: only methods change a table, they check all before they
change anything, and a recorder sees each change first, so that uncommitted changes can be reverted.

- `table`: the partition table with its topics, brokers and directories, and changes as columns.
- `image`: the state of a KRaft cluster: records applied, reverted, and written as a snapshot.
- `shape`: an image as a JSON document that people read, without secrets.
- `zookeeper`: the state of a ZooKeeper-mode cluster: contents of znodes.
- `metadata_version`: Kafka's metadata versions, and which records each allows.
- `newer_records`: records and levels that only a newer release can read.
- `log_events`: records of the metadata log as rows of Apache Arrow; `sensitive_settings`: values that no table shows.
- `topic_names`: checks names of topics.
- `principal`, `acl_codes`: principals and delegation tokens, codes of ACLs.
"""
