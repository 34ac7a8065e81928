"""Metrics for an operator: of the process's event loop, and of each server, on a page for Prometheus.

An event costs one addition. Each server has its own counters (`server/quorum_node/quorum_metrics.py`,
`server/zk_controller/zk_controller_metrics.py`, `net/connection_metrics.py`). A request for the page converts the
counters to `prometheus-client` families on the event loop's thread, which owns them. The converters are
`server/quorum_node/quorum_metric_families.py`, `server/kraft_controller/kraft_controller_metric_families.py` and
`server/zk_controller/zk_controller_metric_families.py`. Other threads write and send the page (`page.py`).
"""
