"""Upgrades kraft.version from 0 to 1 while the quorum runs; from then on the log holds the voters (KIP-853).

The upgrade need not check for a pending change of voters: at version 0 voters cannot change, and after the upgrade the
next change waits until the upgrade is committed. The handler of UpdateFeatures (`server/quorum_node/features.py`) calls
`RaftNode.upgrade_kraft_version`. Source: KafkaRaftClient.upgradeKRaftVersion,
LeaderState.maybeAppendUpgradedKRaftVersion.
"""

from typing import TypeAlias

from kcore.constants import KRAFT_VERSION
from kcore.protocol_errors import Errors
from kcore.raft import leading
from kcore.raft.log.control_records import kraft_version_record
from kcore.raft.membership.replicas import NO_DIRECTORY
from kcore.raft.membership.voters import MAX_KRAFT_VERSION
from kcore.raft.node_context import NodeContext

Problem: TypeAlias = tuple[Errors, str]


def upgrade(node: NodeContext, version: int, now_ms: int, *, validate_only: bool) -> Problem | None:
    """Appends the version and the voters in one batch, unless already upgraded; returns the problem or None."""
    known, persisted = node.leading.known_voters, node.voter_history.kraft_version
    if version == persisted:
        return None
    invalid = Errors.INVALID_UPDATE_VERSION
    step = f"Invalid upgrade of {KRAFT_VERSION} from version {persisted} to {version}"
    if version < persisted:
        return invalid, f"{step} because the new version is a downgrade"
    if known is None or version > MAX_KRAFT_VERSION or node.config.level == "3.9":
        return invalid, step
    assert known.ids == node.voters.ids  # At version 0 voters do not change.
    # A voter that has not reported its versions supports version 0 only.
    if not known.supports(version):
        return invalid, f"{step} because not all of the voters support it"
    if any(key.directory_id == NO_DIRECTORY for key in known.keys):  # Kafka throws an IllegalStateException.
        return Errors.UNKNOWN_SERVER_ERROR, f"{step}: the directory ids of all voters must be known"
    if not validate_only:
        leading.append_control(node, [kraft_version_record(version), known.to_record()], now_ms)
        node.leading.known_voters = None
    return None
