"""kraft.version goes up from 0 to 1 while the quorum runs: from then on the log names the voters (KIP-853).

Nothing is asked of a change of voters that is on its way: at version 0 there is none, and behind the upgrade the next
one waits until that is committed. Source: KafkaRaftClient.upgradeKRaftVersion,
LeaderState.maybeAppendUpgradedKRaftVersion. UpdateFeatures is no request of raft's: whoever answers it calls
`RaftNode.upgrade_kraft_version` (`server/quorum/features.py`).
"""

from typing import TypeAlias

from kcore.protocol_errors import Errors
from kcore.raft.context import NodeContext
from kcore.raft.control_records import kraft_version_record
from kcore.raft.replicas import NO_DIRECTORY
from kcore.raft.voter_changes import FEATURE
from kcore.raft.voters import MAX_KRAFT_VERSION

Problem: TypeAlias = tuple[Errors, str]


def upgrade(node: NodeContext, version: int, now_ms: int, *, validate_only: bool) -> Problem | None:
    """Of a leader: version and voters go into the log, in one batch. Why not, or None, also where it is so already."""
    known, persisted = node.leading.known_voters, node.voter_history.kraft_version
    if version == persisted:
        return None
    invalid, step = Errors.INVALID_UPDATE_VERSION, f"Invalid upgrade of {FEATURE} from version {persisted} to {version}"
    if version < persisted:
        return invalid, f"{step} because the new version is a downgrade"
    if known is None or version > MAX_KRAFT_VERSION or node.config.level == "3.9":
        return invalid, step
    assert known.ids == node.voters.ids  # At version 0 nobody comes and nobody goes.
    if not known.supports(version):  # As configured they are said to do no more than 0: who is silent is one of these.
        return invalid, f"{step} because not all of the voters support it"
    if any(key.directory_id == NO_DIRECTORY for key in known.keys):  # An IllegalStateException.
        return Errors.UNKNOWN_SERVER_ERROR, f"{step}: the directory ids of all voters must be known"
    if not validate_only:
        node.leading.append_control(node, [kraft_version_record(version), known.to_record()], now_ms)
        node.leading.known_voters = None
    return None
