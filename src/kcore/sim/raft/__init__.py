"""A quorum in a simulated world, and the invariants that must hold there.

A seed determines the options, every event and every fault of a world, so each failure can be replayed.

- `run_world`, `campaign`, `coverage`: runs one seed, or many, and counts the events that occurred
- `options`: the options of a world, drawn from its seed
- `world_state`, `running_world`, `world`: the data, the calls of subjects, and the events
- `simulated_machine`, `disk`, `log_consumer`, `processes`, `edge`: a machine, its disk and its processes
- `faults`, `crash_points`, `damage`: the faults
- `clients`, `foreign_requests`, `upgrades`: requests from outside the quorum
- `checkers`, `facts`, `committed`, `liveness`: invariants, the facts they use, and progress after all faults end
"""
