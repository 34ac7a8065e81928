"""The log directories of one broker, as state machines without a disk, a clock or a socket (KIP-858, KIP-113).

The metadata log has a directory for each of this broker's replicas, and each replica is in a directory. If these
differ, the broker creates or moves the replica, or sends the controller an AssignReplicasToDirs request. The server
calls `BrokerDirectories`, performs its `take_outputs()` in order, and reports the results.

- `outputs.py`: the operations that the server performs.
- `found.py`: at the start, chooses among several logs of one replica.
- `placing.py`: compares a replica's directory with the metadata log, by the nine cases of KIP-858 as one table; chooses
  the directory of a new replica.
- `assignments.py`: the queue of assignments for AssignReplicasToDirs, and the directories in the metadata image.
- `moves.py`: moves replicas, by a table of states and events. A future replica copies the current one, the controller
  accepts its directory, then it is promoted.
- `failures.py`: the failed directories that heartbeats list, and when the broker must stop.
- `broker_directories.py`: joins all of these.

Invariants:
- A replica is promoted only after the controller has acknowledged its directory.
- The last assignment that was sent for a partition names its current directory, or a newer assignment is queued.
- Each ticket (the number by which a move waits for an assignment) is settled once.
- The serving log is deleted only when its replacement is complete and has the final name.
"""
