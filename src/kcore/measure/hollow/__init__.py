"""Hollow brokers: a controller takes them for real brokers, but they hold no replicas.

`fleet.py` runs the hollow brokers of a KRaft cluster, whose sockets and timers run in the kernel `_ext/rust/hollow`.
`quorum_client.py` finds the active controller and sends requests to it. `frames.py` builds the heartbeats and fetches.
`secured.py` has TLS and SASL of their connections, and `refusals.py` explains why a controller refuses them.
`observer.py` replays the log that the brokers fetch. `isr.py` sends the leaders' AlterPartition. `timeline.py` keeps
when each batch reached each broker, and `histograms.py` computes percentiles of the kernel's durations.
`spark_fleet.py` runs a fleet on Spark, and `spark_task.py` its part in one executor; `spark_wire.py` frames messages.
`zk/` runs the hollow brokers of a cluster in ZooKeeper mode, where the controller sends them its requests.
"""
