"""Hollow brokers: a controller takes them for real brokers, but they hold no replicas.

`fleet.py` runs the hollow brokers of a KRaft cluster. They register, send heartbeats, fetch the metadata log and change
ISRs. The kernel `_ext/rust/hollow` runs their sockets and timers. `observer.py` replays the log that they fetch.
`timeline.py` keeps when each batch reached each broker. `spark_fleet.py` runs the same fleet on Spark's executors.
`zk/` runs the hollow brokers of a cluster in ZooKeeper mode, where the controller sends them its requests.
"""
