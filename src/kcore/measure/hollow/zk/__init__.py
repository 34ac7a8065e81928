"""Hollow brokers of a cluster in ZooKeeper mode, and the znodes that such a cluster begins with.

`zk_fleet.py` registers and ends the brokers. `receivers.py` takes the controller's requests, with the formats of
`layouts.py`. `leaders.py` sends AlterPartition. `broker_session.py` is a ZooKeeper session that can be cut. `tree.py`
writes the znodes.
"""
