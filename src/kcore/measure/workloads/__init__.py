"""The work of a benchmark cell; imports no Spark.

- `cell.py`, `catalog.py`, `run_cell.py`: a cell, the workloads by name, and the run of a cell.
- `generate.py`, `clusters.py`, `scaling.py`, `messages.py`: generated and scaled clusters, and their control requests.
- `election_workload.py`, `codec_workload.py`, `fan_out_workload.py`, `divergence_workload.py`, `shapes_workload.py`.
- `measure.py`, `changes.py`, `memory.py`: times beside memcpy, bytes of a decision, and memory.
- `workload_rows.py`: the columns of a result.
"""
