"""The limits of clients: connections, bytes, log lines and time of the event loop.

- `connection_limits.py`: the limits of one connection, as settings.
- `admission.py`: which connections a server keeps; connections per address and per second.
- `held_bytes.py`: bytes that all connections hold; bytes received in one turn of the loop.
- `large_requests.py`, `work_in_parts.py`: large requests, answered and freed part by part.
- `stopwatch.py`: the time that a request takes, for request quotas.
- `bounded_log.py`: log lines about clients, at a bounded rate.
"""
