"""Replays a recorded metadata log: hollow brokers do again what brokers and administrators did.

`trace.py` reads a metadata log as batches with their times. `causes.py` derives from each batch the events that caused
its records (`events.py`), with `partition_causes.py` for changed partitions. Every other change is a consequence: a
decision of the controller. `recording.py` selects a part of the trace. `describe.py` counts its events, and
`describe_table.py` prints them.

`run_replay.py` starts a target, where `initial_state.py` makes the state at the recording's begin. `schedule.py` has
each cause's due time. `player.py` does the causes with hollow brokers, with the requests of `requests.py`.
`compare_states.py` compares end states and decisions; `replay_report.py` has the tables and the page.

An event waits for earlier events of its brokers and topics, for the recorded fencings, and for the recorded state of
the partitions that it changes. After a time-out the replay goes on, and the event has a deviation.
"""
