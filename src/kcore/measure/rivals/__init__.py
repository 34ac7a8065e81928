"""`kcore rivals`: kcore and other libraries run the same operations in one run; results are compared before times.

- `rivals.py`: the run. `rival_peers.py`: the peers, built and asked.
- `rival_targets.py`, `rival_ranges.py`: the bounds that a run must meet, and their spread over runs.
- `rival_names.py`, `rivals_page.py`: names and the page.
"""
