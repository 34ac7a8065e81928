"""Storms: a controller under the load of hollow brokers, measured from outside, as rows of a report.

A scenario is timed from its intended moment, such as the kill of a broker, until the last broker knows the last change.
A broker knows a change when it has a high watermark above the change.

`storm_plan.py` has the options; `targets.py` starts the controllers of a target, and `run_security.py` makes their
certificates and users. `run_storm.py` runs a plan's cells; a
cell is one cluster that is grown to a size, and all scenarios on it. `kraft/` has the scenarios for a quorum, `zk/`
those for a controller in ZooKeeper mode; `moves.py` chooses new replicas in both. A scenario states how much it must
change (`expectations.py`) and which errors it provokes (`expected.py`), and returns a `ScenarioResult` (`result.py`).
`replay/` reads and replays a recorded metadata log instead of scenarios. `profiling.py` is the interface to a profile
of the controllers, which `profile/` takes.

`phases.py` divides the time of a scenario. `report_rows.py` merges repetitions, `report_table.py` makes tables of them.
`report_security.py` compares the CPU time with TLS or SASL and in plaintext.
`storm_report.py` makes the page, with `answer.py`, `curves.py`, `storm_charts.py` and `storm_history.py`. `compared.py`
reads results for `kcore compare`.
"""
