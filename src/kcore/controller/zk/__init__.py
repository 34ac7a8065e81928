"""The controller of a cluster whose state is in ZooKeeper (KafkaController of 3.9.1).

An event goes in through `active.py`, which finds its handler in `handlers.py`. A handler is a generator of effects
(`effects.py`): reads and conditional writes of znodes, control requests for brokers, the response to a request.
`zk_context.py` is the controller's state; it changes only by writes that ZooKeeper has accepted. The subjects are
`brokers/`, `topics/`, `leaders/` (elections, ISRs) and `admin/` (requests of clients); `requests/` builds the control
requests. Invariants: every write is fenced by the version of /controller_epoch, and a partition's state is sent only
after it was written.
"""
