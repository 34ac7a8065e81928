"""The binary protocol over sockets (asyncio): connections to a peer, and a server that calls a handler.

Bytes become frames, frames become requests, and responses become frames again. All limits apply from a client's first
byte on, before the client has authenticated. Modules in reading order:

- `framed_connection.py`: reads and writes frames, for both ends of a connection.
- `connect.py`, `connection.py`, `versions.py`, `retry.py`, `address.py`: a client's connection to a peer.
- `server.py`, `listener.py`, `served_connection.py`: a server, its listening socket, and one connection of a client.
- `requests.py`, `request_context.py`: parse requests, frame responses, and describe the sender of a request.
- `silent_connections.py`, `direct_connections.py`, `idle_connections.py`: connections without a transport or a task.
- `adoption.py`: hands connections to the answer loop, and takes them back.
- `connection_metrics.py`, `durations.py`: metrics for an operator.
- `limits/`: bounds on connections, bytes and time. `security/`: TLS and SASL (PLAIN, SCRAM, tokens).
"""
