"""Replays a recorded metadata log: hollow brokers do again what brokers and administrators did.

`trace.py` reads a metadata log as batches with their times. `causes.py` derives from each batch the events that caused
its records (`events.py`), with `partition_causes.py` for changed partitions. Every other change is a consequence: a
decision of the controller. `recording.py` selects a part of the trace. `describe.py` counts its events, and
`describe_table.py` prints them.

`run_replay.py` starts a target, where `initial_state.py` makes the state at the recording's begin. `effects.py` finds
what each cause changed. `schedule.py` has each cause's due time, and the earlier causes that it waits for. `player.py`
does the causes with hollow brokers, with the requests of `requests.py`. `compare_states.py` compares end states and
decisions, with `partition_states.py`; `replay_report.py` has the tables, `replay_page.py` the page.

An event is done when the target has the effects of all earlier events on the same topics and brokers. If the target
decides otherwise than recorded, the event has a deviation, and the replay goes on.
"""
