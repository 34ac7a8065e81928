"""Hollow brokers: to a controller they are real, but they hold no replicas.

`fleet.py` has those of a KRaft cluster: they register, send heartbeats, fetch the metadata log and ask for ISR changes;
the kernel `_ext/rust/hollow` does their sockets and timers, `observer.py` replays the log that one of them fetches,
`timeline.py` keeps when each batch reached each broker. `spark_fleet.py` has the same fleet on Spark's executors.
`zk/` has those of a cluster in ZooKeeper mode, to which the controller sends its requests.
"""
