"""Storms on a controller in ZooKeeper mode, over a real ZooKeeper.

`run_zk_storm.py` runs a cell. `zk_storm.py` has the state that scenarios share and the measurement of a scenario.
`scenarios.py` has the scenarios, with those about topics in `topics.py`. `end_state.py` compares what they leave.
"""
