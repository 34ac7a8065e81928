"""The measuring tools: plans become cells, cells become rows, rows become reports.

- `workloads/`: the work of a benchmark cell. `bench/`: plans, results, reports and comparison of `kcore bench`.
- `hollow/`: brokers without replicas. `storm/`: controllers under their load.
- `rivals/`: kcore beside other libraries. `designs/`: the article's designs over ZooKeeper. `raft_bench/`: raft nodes.
- `processes/`: Kafka's jars, and the processes under test. `watch/`: a cluster as `kcore top` shows it.
- `report/`: figures, charts, pages, files of results, exit codes.
"""
