"""The members of a quorum and their changes (KIP-853).

- `replicas`, `voters`: keys and endpoints of replicas; the voter set and its history in the log
- `voter_changes`, `pending_change`: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter; the change that is under way
- `kraft_version`: the upgrade of kraft.version to 1, after which the log holds the voters
- `cluster_id`: a state machine with which the first leader generates the cluster id
"""
