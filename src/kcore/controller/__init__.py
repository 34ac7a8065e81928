"""Kafka's controller: what both of its modes share, and a package for each mode.

A request or an event enters; records, or writes to ZooKeeper, and a response leave. No module here reads a clock, a
file or a socket.

- `rules/`: pure functions over values and tables that both modes use; they raise Kafka's exceptions. `kcore.node` has
  the rules that brokers use, too.
- `zk/`: the controller of a cluster whose state is in ZooKeeper: events in, effects (reads, conditional writes, control
  requests) out.
- `kraft/`: the controller of a cluster whose state is the metadata log.

`zk/` and `kraft/` import `rules/`; neither imports the other, and `rules/` imports neither.
"""
