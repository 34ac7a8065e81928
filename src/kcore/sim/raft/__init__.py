"""A quorum in a simulated world.

If you came to replay a failure: `run_world.py`. What a world is like: `options.py`. What happens in it: `world.py`,
`faults.py`, `clients.py`. What must always hold: `checkers/`, and once all is healed: `liveness.py`.
"""
