"""Starts processes for a measurement or a test: controllers, brokers, ZooKeeper, with Kafka's jars.

`jars.py` fetches the jars of Kafka's processes. `java_process.py` starts and ends one process, `controller_quorum.py` a
KRaft quorum (`kafka_quorum.py`: Kafka's, `kcore_quorum.py`: kcore's), `zk_cluster.py` ZooKeeper and brokers over it,
`zk_controllers.py` a controller in ZooKeeper mode, Kafka's or kcore's. Each ends its processes and removes their files
at the end of a `with`.
"""
