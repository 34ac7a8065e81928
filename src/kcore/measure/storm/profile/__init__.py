"""The profile of a storm: where the controllers' CPU time went, by layer, by event and by thread, scenario by scenario.

A profile has two sources. The operating system counts how much CPU time each thread took in a scenario (`threads.py`).
A sampling profiler records what a thread did (`samples.py`): py-spy for kcore's controllers (`pyspy.py`),
async-profiler for Kafka's (`async_profiler.py`). A thread's CPU time is divided among its samples (`shares.py`): the
figures do not depend on the sampling rate. A thread without samples, such as a native thread of kcore's process,
counts under its name.

Rules that are data (`profile_rules.py`) give each stack a layer and an event. The window of a scenario is that of its
`controller_cpu_s`: from the intended moment until the last broker knows the last change (`profile_cell.py`).
`profile_files.py` writes the shares, the folded stacks and the flame graphs (`flame.py`) into the folder of a storm's
results; `profile_tables.py` makes tables, and `profile_page.py` the section of the report.
"""
