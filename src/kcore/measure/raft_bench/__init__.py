"""Three raft nodes of kcore beside three of Kafka's: commit latency and throughput."""
