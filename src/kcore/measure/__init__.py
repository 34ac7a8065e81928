"""The measuring tools: plans become cells, cells become rows, rows become reports.

- `workloads/`: the work of a benchmark cell. `bench/`: plans, results, reports and comparison of `kcore bench`.
- `hollow/`: brokers without replicas. `storm/`: measurements of controllers under the load of hollow brokers.
- `rivals/`: kcore beside other libraries. `designs/`: the article's designs over ZooKeeper. `raft_bench/`: raft nodes.
- `processes/`: Kafka's jars, and the processes under test. `watch/`: the state of a cluster for `kcore top`.
- `report/`: figures, charts, pages, result files, exit codes.
"""
