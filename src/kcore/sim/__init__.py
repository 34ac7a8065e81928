"""Seeded worlds: nodes of a quorum on simulated networks, disks and clocks, with all that can go wrong there.

If you came to replay a failure: `run.py`. What a world is like: `options.py`. What happens in it: `world.py`,
`faults.py`, `clients.py`. What must always hold: `checkers/`, and once all is healed: `liveness.py`.
"""
