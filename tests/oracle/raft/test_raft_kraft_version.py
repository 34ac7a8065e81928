"""kafka-features.sh takes a quorum of configured voters from kraft.version 0 to 1: of real leaders, and of kcore's."""

import asyncio
import subprocess

from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema import ControllerRegistrationRequest
from kcore.schema.broker_lifecycle import Feature, Listener
from kcore.types import Uuid
from oracle.kafka_tools import FEATURES, RELEASE, tool_command
from oracle.raft.test_raft_membership import tool, voters_of
from oracle.raft.test_raft_voters import NO_OPS, PATIENT, elect_kcore
from oracle.raft_quorums import Member, RaftQuorum, until

UPGRADE = ("upgrade", "--feature", "kraft.version=1")


def features(where: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = tool_command(FEATURES, "--bootstrap-controller", where, *arguments, release=RELEASE)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def upgrade(where: str) -> None:
    """Refused until the leader has heard all voters: each speaks up a fetch time-out after it has found the leader."""
    ended: list[subprocess.CompletedProcess[str]] = []

    def done() -> bool:
        ended[:] = [features(where, *UPGRADE)]
        assert ended[0].returncode == 0 or "not all of the voters support it" in ended[0].stdout + ended[0].stderr, (
            ended
        )
        return ended[0].returncode == 0

    until(done, lambda: ended)
    assert "kraft.version was upgraded to 1" in ended[0].stdout


def register(active: Member, node: Member) -> None:
    """A real active controller takes no feature up before all configured voters have (KIP-919); kcore's never do."""
    refused = f"controller {node.node_id} has not registered"
    until(lambda: refused in features(active.address, *UPGRADE).stdout, lambda: features(active.address, *UPGRADE))
    request = ControllerRegistrationRequest(
        controller_id=node.node_id,
        incarnation_id=Uuid(bytes(15) + b"\x01"),
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=node.port)],
        features=[
            Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=99),
        ],
    )

    async def ask() -> int:
        async with await connect("127.0.0.1", active.port) as connection:
            return int((await connection.send(request)).error_code)

    until(lambda: asyncio.run(ask()) == Errors.NONE, lambda: f"node {node.node_id} is not registered")


def directories(quorum: RaftQuorum) -> dict[int, str]:
    """As the leader describes its voters; all zero at version 0."""
    return {each.replica_id: str(each.replica_directory_id) for each in quorum.described().current_voters}


def formatted(quorum: RaftQuorum) -> dict[int, str]:
    return {node.node_id: node.directory_id for node in quorum.voters}


def test_a_real_leader_goes_up_and_kcore_follows_votes_and_leads() -> None:
    with RaftQuorum(RELEASE, real=2, kcore=1, properties=PATIENT, options=NO_OPS) as quorum:
        [kcore] = quorum.kcore
        leader = quorum.leader(*quorum.real)
        quorum.await_progress(*quorum.voters)
        register(leader, kcore)
        assert set(directories(quorum).values()) == {str(Uuid())}
        upgrade(quorum.bootstrap)
        until(lambda: directories(quorum) == formatted(quorum), lambda: directories(quorum))
        quorum.await_progress(*quorum.voters)
        leader.kill()
        quorum.leader(*(each for each in quorum.voters if each is not leader))  # By its vote, or with the other's.
        leader.start()
        quorum.await_progress(*quorum.voters)
        assert elect_kcore(quorum) is kcore
        quorum.await_progress(*quorum.voters)
        assert directories(quorum) == formatted(quorum)
        assert "cannot go on" not in kcore.log_text()


def test_kcore_leads_and_goes_up_and_real_ones_follow() -> None:
    """The next leader is a real one, and has the voters of kcore's record: one is removed, which version 0 refuses."""
    with RaftQuorum(RELEASE, real=2, kcore=1, properties=PATIENT, options=NO_OPS) as quorum:
        kcore = elect_kcore(quorum)
        quorum.await_progress(*quorum.voters)
        refused = features(kcore.address, "upgrade", "--feature", "kraft.version=2")
        assert (refused.returncode, "only supports versions 0-1" in refused.stdout + refused.stderr) == (1, True)
        upgrade(kcore.address)
        assert directories(quorum) == formatted(quorum)
        quorum.await_progress(*quorum.voters)
        kcore.terminate()
        quorum.leader(*quorum.real)
        quorum.await_progress(*quorum.real)
        assert directories(quorum) == formatted(quorum)
        kcore.start()
        quorum.await_progress(*quorum.voters)
        arguments = ("--controller-id", kcore.node_id, "--controller-directory-id", kcore.directory_id)
        tool(quorum.bootstrap, "remove-controller", *arguments)
        until(lambda: voters_of(quorum) == {1, 2}, lambda: quorum.described())
        quorum.await_progress(*quorum.real)
