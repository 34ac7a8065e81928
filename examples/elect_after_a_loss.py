"""Broker 7 of a cluster is lost: who leads now, in ZooKeeper mode and in KRaft mode."""

import numpy as np

import kcore

table = kcore.generate(partitions=1_000_000, brokers=100, replication_factor=3, topics=10_000, seed=1)
led = int(np.count_nonzero(table.leader__p == table.brokers.row(7)))
print(f"{len(table):,} partitions; broker 7 leads {led:,} of them")

zookeeper = kcore.zk.elect(table, "offline", leaving=[7])  # as KafkaController.onBrokerFailure
kraft = kcore.kraft.elect(table, "online", leaving=[7])  # as ReplicationControlManager.handleBrokerFenced
print(f"{len(zookeeper):,} partitions change, the same leaders: {np.array_equal(zookeeper.leaders, kraft.leaders)}")

table.apply(kraft.written(), leaving=[7])
print("broker 7 leads", int(np.count_nonzero(table.leader__p == table.brokers.row(7))))

# Prints:
# 1,000,000 partitions; broker 7 leads 10,000 of them
# 30,000 partitions change, the same leaders: True
# broker 7 leads 0
