"""A cluster in a simulated world: controllers, brokers, their directories and an administrator.

The world is that of `kcore.sim.raft`: its quorum, network, disks, clocks, faults and invariants. The voters run the
production KraftController. The observers run a broker's production code up to its records: the metadata observer, the
lifecycle, the log directories and the queue of AlterPartition. A model of leaders decides which follower has caught up.

- `run_world`, `options`: run one seed; the options of a cluster, drawn from its seed
- `schedule`, `shrinking`: the faults and requests as numbered steps; fewer of them for a failing seed
- `cluster_program`: what the quorum's nodes run, and when the checks run
- `controller_process`, `broker_process`: one process each; `process_events`, `exchanges`: their timers and requests
- `broker_disks`, `leaderships`, `isr_proposals`: directories that outlive processes; led partitions and their ISRs
- `snapshots`: snapshots of both kinds of nodes
- `administrator`, `broker_faults`: what happens to the cluster
- `committed_cluster`, `cluster_facts`: the cluster that the committed records describe, in plain Python
- `cluster_checker`, `answer_checks`, `image_checks`: the invariants; docs/guides/simulate.md has their table
- `partition_changes`: Kafka's rules for one change of a partition (I5, I9)
- `fenced_members`, `misplaced_members`: ISR members that may be fenced (I5), or in an unregistered directory (I12)
- `liveness`, `coverage`: what the cluster must reach without faults; counts of what happened
"""
