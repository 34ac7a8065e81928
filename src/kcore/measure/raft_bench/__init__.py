"""Compares three raft nodes of kcore with three of Kafka's: commit latency and throughput."""
