"""Limits what clients may use: connections, bytes, log lines and time of the event loop.

- `connection_limits.py`: the limits of a connection and of a server, as settings.
- `admission.py`: chooses the connections that a server keeps; limits them per address and per second.
- `held_bytes.py`: limits the bytes that all connections hold, and that one turn of the event loop receives.
- `large_requests.py`, `work_in_parts.py`: answer and free large requests part by part.
- `time_share.py`: gives work that may wait a share of the event loop's time.
- `stopwatch.py`: measures the time that a request takes, for request quotas.
- `bounded_log.py`: limits the rate of log lines about clients.
"""
