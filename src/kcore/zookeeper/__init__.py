"""ZooKeeper at the edge: kazoo's session behind an asyncio surface, requests in bulk (kafka.zookeeper.ZooKeeperClient).

`client` reads and writes, `session` is the one connection and its watches, `operations` are requests as columns,
`registration` is what a broker and a controller are by.
"""
