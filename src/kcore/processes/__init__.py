"""Processes that a measurement or a test starts: Kafka's jars, controllers, brokers, ZooKeeper.

`jars.py` fetches what the processes run. `java_process.py` starts and ends one process, `kafka_quorum.py` a KRaft
quorum, `zk_cluster.py` ZooKeeper and brokers over it, `zk_controllers.py` a controller in ZooKeeper mode, Kafka's or
kcore's. Each ends its processes and removes their files at the end of a `with`.
"""
