"""A client of ZooKeeper for asyncio, over kazoo's session, with bulk requests (kafka.zookeeper.ZooKeeperClient).

Callers pass many paths and operations at once. A kernel encodes these as multi and multiRead requests of up to a
thousand operations. Results and watches reach the event loop in ZooKeeper's order. Invariants: a request of an
expired session is never sent in the next one, and with a fence nothing is written after another controller's election.

In reading order:
- connect_string: checks zookeeper.connect.
- session: one session, its reconnects and its watches; all uses of kazoo's private names.
- operations: requests and results as columns.
- client: reads and writes of znodes, and of partition states by table row.
- registration: registers brokers, and elects controllers.
"""
