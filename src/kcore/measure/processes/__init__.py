"""Starts processes for a measurement or a test: controllers, brokers and ZooKeeper, from Kafka's jars or kcore.

- `jars`, `ivy`: fetch the jars of Kafka's processes.
- `target`: parses --target and its options; `probe`: asks a target's program for its release and its JVM.
- `started`, `java_process`, `local_process`, `listening`: the base class, one process, its resources, its address.
- `watched`: ends work with processes as soon as one of them fails.
- `controller_quorum`: a KRaft quorum; `kafka_quorum`: of Kafka's controllers; `kcore_quorum`: of kcore's.
- `zk_cluster`: ZooKeeper and brokers over it; `zk_controllers`: a controller in ZooKeeper mode, Kafka's or kcore's.

At the end of its `with`, each class ends its processes and removes their files.
"""
