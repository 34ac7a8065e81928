"""What servers tell an operator: figures of the process's event loop, and a page of all figures for Prometheus.

Counting costs an addition an event. Each server has its own counters (`server/quorum/metrics.py`,
`server/controller/metrics.py`, `net/metrics.py`); only when the page is asked for, they become families of the
library `prometheus-client` (`server/quorum/families.py`, `server/kraft/families.py`, `server/controller/families.py`),
on the event loop's thread, since they belong to it. The page is written and sent by other threads (`page.py`).
"""
