"""A node of a KRaft quorum, with no clock, no socket and no file (KIP-595, KIP-630, KIP-853, KIP-996).

The edge passes requests, responses, timers and flushes to a RaftNode, and performs the effects that each call returns,
in order. Each subject (votes, fetching and so on) is a module of functions that take a NodeContext. Only `quorum.py`
changes the node's state, by the table in `transitions.py`. A vote or an epoch is durable before a message is sent.

The names below are public. Modules in reading order:

- `node`: the entry point; maps events to subjects
- `effects`: the effects that the edge performs
- `states`, `transitions`, `quorum`: the states, the table of transitions, and the code that enforces it
- `node_context`, `raft_config`: the data that all subjects share, and the settings
- `timers`: work that is due after every event
- `votes`, `quorum_epochs`, `epoch_limits`: elections, leaders' announcements, bounds of epochs
- `fetching`, `intervals`, `leading`: the leader's side: Fetch, appends, replicas' progress. In a server process, the
  answer loop (`server/quorum_node/answer_loop.py`) answers observers' repeated fetches.
- `following`, `snapshots`: the follower's side, and snapshots on both sides
- `responses`, `connections`, `describing`: shared checks, requests in flight, DescribeQuorum
- `state_machine`, `driver`: the interface to the state machine above the node
- `log`: record batches, control records and the interface of a log
- `membership`: voters, their changes, kraft.version, the cluster id
"""

from kcore.errors import RaftLogError as RaftLogError
from kcore.raft.driver import StateMachineDriver as StateMachineDriver
from kcore.raft.effects import Committed as Committed
from kcore.raft.effects import Effect as Effect
from kcore.raft.effects import Flush as Flush
from kcore.raft.effects import LeaderChanged as LeaderChanged
from kcore.raft.effects import Notice as Notice
from kcore.raft.effects import Send as Send
from kcore.raft.effects import SendResponse as SendResponse
from kcore.raft.effects import SnapshotLoaded as SnapshotLoaded
from kcore.raft.effects import Stopped as Stopped
from kcore.raft.effects import StoreElection as StoreElection
from kcore.raft.log.memory_log import MemoryLog as MemoryLog
from kcore.raft.log.raft_log import Appended as Appended
from kcore.raft.log.raft_log import RaftLog as RaftLog
from kcore.raft.log.raft_log import Refused as Refused
from kcore.raft.log.raft_log import SnapshotPiece as SnapshotPiece
from kcore.raft.membership.replicas import Address as Address
from kcore.raft.membership.replicas import ElectionState as ElectionState
from kcore.raft.membership.replicas import ReplicaKey as ReplicaKey
from kcore.raft.membership.replicas import Voter as Voter
from kcore.raft.membership.voters import VoterSet as VoterSet
from kcore.raft.node import RaftNode as RaftNode
from kcore.raft.raft_config import RaftConfig as RaftConfig
from kcore.raft.state_machine import Append as Append
from kcore.raft.state_machine import AppendBatches as AppendBatches
from kcore.raft.state_machine import Resign as Resign
from kcore.raft.state_machine import SnapshotReader as SnapshotReader
from kcore.raft.state_machine import StateMachine as StateMachine
