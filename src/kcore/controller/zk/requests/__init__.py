"""Control requests for brokers, built from the partition table.

- `versions`: the versions of the requests by `inter.broker.protocol.version`.
- `batch`: collects the requests of one event. `states`, `live_brokers`: the columns of their partitions and endpoints.
- `control_request`: a request with its receivers and encoded bytes.
- `outbox`: queues the requests for one broker. `merging`: merges waiting requests.
"""
