"""The log directories of one broker, as machines without a disk, a clock or a socket (KIP-858, KIP-113).

What flows: the metadata log says in which directory this broker's replica of a partition is; the broker knows in which
one it really is. `placing.py` compares the two, and is the document's nine cases as one table; `found.py` comes before
it, at start-up, where several logs of one replica may lie about. What differs is queued in `assignments.py`, which
tells the controller in AssignReplicasToDirs requests. `moves.py` moves a replica to another directory: a future replica
copies, the controller is asked, the future replica is promoted; `move_table.py` is its table of states and events.
`failures.py` knows the directories that failed, for heartbeats, and when a broker must stop. `broker_directories.py`
joins them; the edge calls it, performs `take_outputs()` in order, and tells it what came of that.

Invariants: a replica is promoted only after the controller has acknowledged its directory; what the controller was last
told of a partition is what the broker wants last, or is on its way; each ticket is settled once; the log that serves is
given up only when the one that takes its place is whole and under its name.
"""
