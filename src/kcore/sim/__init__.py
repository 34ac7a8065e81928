"""Seeded worlds: processes on simulated networks, disks and clocks, with all that can go wrong there.

`kernel/` knows no protocol: the queue of events, clocks, the network, processes that crash and pause. `raft/` is a
quorum in such a world: its nodes, what is asked of them, the faults, and the invariants after every event.
"""
