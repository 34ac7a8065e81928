"""Simulated worlds: processes on simulated networks, disks and clocks, with faults. A seed determines all events.

- `kernel/`: the queue of events, processes that pause, clocks, the network and disks; without a protocol
- `raft/`: a KRaft quorum in a world: its nodes, requests of clients, faults, and invariants checked after every event
- `cluster/`: controllers and brokers on such a quorum, an administrator, and the invariants of the cluster
"""
