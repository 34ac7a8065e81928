"""Kafka's controller: what both of its modes share, and a package for each mode.

- `rules/`: what a request may ask and what follows from it, wherever the cluster's state is kept. Pure functions over
  values and tables; they raise Kafka's exceptions.
- `zk/`: the controller of a cluster whose state is in ZooKeeper: events in, effects (reads, conditional writes, control
  requests) out.
- `kraft/`: the controller of a cluster whose state is the metadata log.

`zk/` and `kraft/` import `rules/`; neither imports the other, and `rules/` imports neither.
"""
