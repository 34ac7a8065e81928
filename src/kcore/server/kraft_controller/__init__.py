"""A KRaft controller as a process: a raft node with a controller as its state machine, and their server.

- `kraft_controller_settings.py`: reads server.properties.
- `kraft_controller_server.py`: the process; it performs the controller's effects and joins the other modules.
- `kraft_controller_request_handlers.py`: passes requests to the node or the controller, with rights and quotas.
- `envelope_requests.py`: opens envelopes. `registrations.py`: begins a few registrations at a time.
- `finalized_features.py`: the committed features in ApiVersions.
- `heartbeat_feed.py`: lets the answer loop answer heartbeats until a broker's registration changes.
- `registration.py`: the controller's own registration.
- `kraft_controller_metric_families.py`: the metrics.
"""
