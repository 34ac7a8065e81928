"""Compares three raft nodes of kcore with three of Kafka: commit latency and throughput.

`nodes` runs and measures three nodes, `run_raft_bench` runs all systems under all loads, and `raft_bench_report`
renders the page.
"""
