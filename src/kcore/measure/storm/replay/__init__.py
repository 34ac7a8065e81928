"""Replays a recorded metadata log: hollow brokers do again what brokers and administrators did.

`trace.py` reads a metadata log as batches with their times. `causes.py` derives from each batch the events that caused
its records (`events.py`), with `partition_causes.py` for changed partitions. Every other change is a consequence: a
decision of the controller. `describe.py` counts both, for `--describe`.
"""
