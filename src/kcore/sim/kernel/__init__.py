"""The parts of every simulated world, which know no protocol.

- `events`, `simulated_process`: the queue of events, and the processes that handle them
- `clock`, `network`, `file_system`: clocks that drift, messages that get lost, and disks after a crash
- `violation`: the error that reports a broken invariant
"""
