"""The binary protocol over sockets: connections to a peer, and a server for handlers (asyncio)."""
