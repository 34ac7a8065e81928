"""Designs of the article on Kafka's replication on a real ZooKeeper: the cost when a broker is lost.

v1, v2 and v3 replicate state in three ways; v3 also has an external view. The modules:

- `designs_plan`, `run_designs`, `designs_rows`, `designs_report`: the plan, the run, its rows and its page.
- `sessions`, `meter`: sessions that count requests, and ZooKeeper's own counts.
- `design`, `v1`, `state_queue`, `v2`, `v3`, `views`: the base class, and the designs.
- `writes`, `commands`: ways to write states, and ways to send a broker a command.
"""
