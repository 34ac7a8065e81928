"""A node of a KRaft quorum, with no clock, no socket and no file (KIP-595, KIP-630, KIP-853, KIP-996).

The edge passes requests, responses, timers and flushes to a RaftNode, and performs the effects that each call returns,
in order. Subjects are modules of functions over a NodeContext. Only `quorum.py` changes the node's state, by the table
in `transitions.py`; a vote or an epoch is stored before any message leaves the node.

The names below are public. Modules in reading order:

- `node`: the entry point; maps events to subjects
- `effects`: the effects that the edge performs
- `states`, `transitions`, `quorum`: the states, the table of transitions, and the code that enforces it
- `node_context`, `raft_config`: the data that all subjects share, and the settings
- `timers`: work that is due after every event
- `votes`, `vote_count`, `epochs`, `epoch_limits`: elections, leaders' announcements, bounds of epochs
- `fetching`, `leading`, `progress`: the leader's side: Fetch, appends, replicas' progress
- `following`, `snapshots`: the follower's side, and snapshots on both sides
- `responses`, `connections`, `describing`: shared checks, requests in flight, DescribeQuorum
- `state_machine`, `driver`: the interface to the state machine above the node
- `log`: record batches, control records and the interface of a log
- `membership`: voters, their changes, kraft.version, the cluster id
"""
