"""A quorum in a simulated world, and the invariants that must hold there.

A seed determines the options, every event and every fault of a world, so each failure can be replayed.

- `run_world`, `campaign`: run one seed, or many
- `coverage`, `answers`, `story`: count the events of a world, and describe its last events
- `options`: the options of a world, drawn from its seed
- `world_state`, `running_world`, `world`: a world's data, the calls that act on its nodes, and its events
- `raft_program`: the program of `kcore sim raft`; `running_world` has the interface of programs
- `simulated_machine`, `disk`, `processes`, `edge`: a machine, its disk and processes
- `watched_state_machine`, `log_consumer`: checks of the calls of a state machine; the state machine of `kcore sim raft`
- `faults`, `crash_points`, `damage`: the faults
- `clients`, `foreign_requests`, `upgrades`, `versions`: requests from outside the quorum, and versions of requests
- `checkers`, `committed`, `voters_of_log`: invariants, and the facts that they use
- `liveness`: the progress that the quorum must make after all faults have ended
"""
