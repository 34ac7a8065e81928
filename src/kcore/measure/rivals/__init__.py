"""`kcore rivals`: kcore and other libraries run the same operations in one run; results are compared before times.

- `rivals.py`: the run. `rival_peers.py`: builds the peers, and talks to their processes.
- `rival_targets.py`, `rival_ranges.py`: the bounds that a run must meet, and the figures' ranges over several runs.
- `rival_names.py`, `rivals_page.py`: printed names, and the page.
"""
