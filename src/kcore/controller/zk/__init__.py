"""The controller of a cluster whose state is in ZooKeeper (KafkaController of 3.9.1).

An event goes in, and its handler yields effects. Invariants: every write is fenced by the version of /controller_epoch,
and a partition's state is sent to brokers only after ZooKeeper has accepted it.

- `active`: takes an event and calls its handler. `handlers`: the tables of handlers. `events`: the events.
- `effects`: reads and conditional writes of znodes, control requests for brokers, and responses, as data.
- `zk_context`: the controller's state, which changes only by accepted writes. `zk_controller_config`: its settings.
- `zk_controller`: decides changes of partitions. `decision`: a decision, as data. `state_changes`: performs decisions.
- `znode_reading`: checks znodes that other nodes wrote.
- `log_lines`: lines of the operator's log.
- `brokers/`, `topics/`, `leaders/` (elections, ISRs), `admin/` (requests of clients): the handlers by subject.
- `requests/`: builds, merges and queues the control requests.

`kcore.node.zk` has the steps over znodes, the ACLs and the requests that brokers answer, too.
"""
