"""A node of a KRaft quorum, with no clock, no socket and no file (KIP-595, KIP-630, KIP-853, KIP-996).

The names below are public. `RaftNode` takes one event at a time and returns effects: what its owner must store, flush,
send and report, in that order. A state machine gives the records of the log their meaning (`StateMachineDriver`).
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
