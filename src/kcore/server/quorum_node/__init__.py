"""A raft node as a process. Quorum nodes, controllers and brokers have the runtime; the first two also listen.

- `quorum_listener_settings.py`, `static_voters.py`: read server.properties.
- `quorum_runtime.py`: passes events to the node, performs its effects and runs the state machine; no listener.
  `machine_runner.py`, `node_effects.py`, `log_flusher.py`, `elections.py`, `lifetime.py`: its parts.
- `snapshot_writing.py`: writes a snapshot slice by slice.
- `quorum_listener.py`: the listener of a runtime. `quorum_server.py`: a node without a controller.
- `quorum_request_handlers.py`: passes requests to the node. `pending_requests.py`: requests that wait for its answer.
- `peers.py`: sends the node's requests to other nodes.
- `answer_loop.py`, `observer_feed.py`: the compiled loop that answers observers' fetches, and its updates.
- `fetch_templates.py`, `leader_log.py`: the answers' templates and records that the loop gets.
- `features.py`: UpdateFeatures without a controller. `workload.py`: a state machine that appends records at a rate.
- `directory_watch.py`, `foreign_clusters.py`: log a lost log directory, and nodes of other clusters.
- `describe.py`, `snapshot_pieces.py`: requests of clients: DescribeQuorum and FetchSnapshot.
- `quorum_metrics.py`, `quorum_metric_families.py`: counters, and their families on the metrics page.
"""
