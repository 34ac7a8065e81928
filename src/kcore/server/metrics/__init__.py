"""What servers tell an operator: figures of the process's event loop, and a page of all figures for Prometheus.

Counting costs an addition an event. Each server has its own counters (`server/quorum_node/quorum_metrics.py`,
`server/zk_controller/zk_controller_metrics.py`, `net/connection_metrics.py`); only when the page is asked for, they
become families of the library `prometheus-client` (`server/quorum_node/quorum_metric_families.py`,
`server/kraft_controller/kraft_controller_metric_families.py`, `server/zk_controller/zk_controller_metric_families.py`),
on the event loop's thread, since they belong to it. The page is written and sent by other threads (`page.py`).
"""
