"""The profile of a storm: where the controllers' CPU time went, by layer, by event and by thread, scenario by scenario.

Two sources, one table. The kernel's account of every thread (`threads.py`) says how much CPU time each one took in a
scenario. A sampling profiler says what a thread did: py-spy for kcore's controllers (`pyspy.py`), async-profiler for
Kafka's (`async_profiler.py`). A thread's CPU time is divided among its samples, so that the sums are the kernel's and
no sampling rate is in the figures (`shares.py`). A thread without samples, such as a native thread of kcore's process,
counts under its name.

Rules that are data (`profile_rules.py`) give each stack a layer and an event. The window of a scenario is that of its
`controller_cpu_s`: from the intended moment until the last broker knows the last change (`profile_cell.py`).
`profile_files.py` keeps the shares, the folded stacks and the flame graphs beside a storm's results; `profile_page.py`
is its part of the report.
"""
