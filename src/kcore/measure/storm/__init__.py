"""Storms: a controller under the load of hollow brokers, measured from outside, as rows of a report.

`storm_plan.py` has the options, `targets.py` what a --target means. `run_storm.py` runs a plan's cells; a cell is one
cluster that is grown to a size, and all scenarios on it. `kraft/` storms a quorum, `zk/` a controller in ZooKeeper
mode; each has its scenarios. A scenario states what it must change (`expectations.py`), and gives one `ScenarioResult`.
`report_rows.py`, `report_table.py` and `storm_report.py` show the results.
"""
