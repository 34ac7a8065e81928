"""A raft node as a process, without a controller. `kraft_controller/` and the observers of brokers extend it.

- `quorum_listener_settings.py`, `static_voters.py`: read server.properties.
- `quorum_server.py`: the process; it performs the node's effects and runs the state machine.
- `quorum_request_handlers.py`: passes requests to the node. `peers.py`: sends the node's requests to other nodes.
- `answer_loop.py`, `observer_feed.py`: the compiled loop that answers observers' fetches, and its updates.
- `features.py`: UpdateFeatures without a controller. `workload.py`: a state machine that appends records at a rate.
- `directory_watch.py`, `foreign_clusters.py`: log a lost log directory, and nodes of other clusters.
- `describe.py`, `snapshot_pieces.py`: requests of clients: DescribeQuorum and FetchSnapshot.
- `quorum_metrics.py`, `quorum_metric_families.py`: counters, and their families on the metrics page.
"""
