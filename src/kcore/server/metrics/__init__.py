"""Metrics for an operator: of each server and of its event loop, on a page for Prometheus.

- `watched_loop.py`: an event loop that measures its turns.
- `metric_families.py`: makes `prometheus-client` families. Each server's `*_metric_families.py` uses it.
- `page.py`: threads that write the page and send it over HTTP.

Each server has its own counters, such as `server/quorum_node/quorum_metrics.py`; an event costs one addition. For each
page the event loop's thread, which owns the counters, converts them to families.
"""
