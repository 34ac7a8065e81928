"""The binary protocol over sockets (asyncio): connections to a peer, and a server that calls a handler.

Bytes become frames, frames become requests, and responses become frames again. All limits apply from a client's first
byte on, before the client has authenticated. Modules in reading order:

- `framed_connection.py`: reads and writes frames, for both ends of a connection.
- `connect.py`, `connection.py`, `calls.py`, `versions.py`, `retry.py`, `address.py`: a client's connection to a peer.
- `server.py`: a server. `requests.py`, `request_context.py`: its APIs, and the sender of a request.
- `connection_states.py`: one connection of a client, its states and transitions. `server_connections.py`: all of them.
- `acceptor.py`, `listener.py`, `accepted_sockets.py`, `silent_connections.py`: a connection until its first request.
- `served_connection.py`, `served_requests.py`, `activity.py`: a connection with a transport and a task.
- `direct_connections.py`, `idle_connections.py`: connections without a transport or a task.
- `adoption.py`: hands connections to the answer loop, and takes them back.
- `connection_metrics.py`, `durations.py`: metrics for an operator.
- `limits/`: bounds on connections, bytes and time. `security/`: TLS and SASL (PLAIN, SCRAM, tokens).
"""
