"""The binary protocol over sockets (asyncio): connections to a peer, and a server that calls a handler.

Bytes become frames, frames become requests, and responses become frames again. Limits hold from the first byte of a
client, before it has authenticated. Modules in reading order:

- `framed_connection.py`: frames in and out, for both ends of a connection.
- `connect.py`, `connection.py`, `versions.py`, `retry.py`, `address.py`: a client's connection to a peer.
- `server.py`, `listener.py`, `served_connection.py`: a server, its socket, and one connection of it.
- `requests.py`, `request_context.py`: requests out of frames, responses, and facts about the sender.
- `silent_connections.py`, `direct_connections.py`, `idle_connections.py`: connections without a transport or a task.
- `adoption.py`: connections that the answer loop serves for a while.
- `connection_metrics.py`, `durations.py`: figures for an operator.
- `limits/`: bounds on connections, bytes and time. `security/`: TLS and SASL.
"""
