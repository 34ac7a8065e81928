"""Kafka's own tool changes the voters of a quorum, and asks how it is: of real leaders, and of kcore's (KIP-853)."""

import re
import subprocess

from oracle.kafka_tools import RELEASE, tool_command
from oracle.raft.test_raft_describe import masked
from oracle.raft.test_raft_voters import NO_OPS, PATIENT, elect_kcore, elect_real
from oracle.raft_quorums import KCORE, METADATA_QUORUM, Member, RaftQuorum, until


def tool(where: str, *arguments: object) -> str:
    command = tool_command(METADATA_QUORUM, "--bootstrap-controller", where, *arguments, release=RELEASE)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def add(quorum: RaftQuorum, where: Member, joining: Member) -> None:
    """kafka-metadata-quorum add-controller, with what it wants to know of the controller."""
    lines = [
        "process.roles=controller",
        f"node.id={joining.node_id}",
        f"log.dirs={joining.data}",
        f"listeners=CONTROLLER://{joining.address}",
        "controller.listener.names=CONTROLLER",
    ]
    path = joining.folder / "joining.properties"
    path.write_text("\n".join([*lines, ""]))
    printed = tool(where.address, "--command-config", path, "add-controller")
    assert f"Added controller {joining.node_id} with directory id {joining.directory_id}" in printed


def voters_of(quorum: RaftQuorum) -> set[int]:
    return {each.replica_id for each in quorum.described().current_voters}


def test_kcore_joins_a_real_quorum_and_leaves_it() -> None:
    """The leader connects back to it, the set is written, and with it the quorum has a majority without a real one."""
    with RaftQuorum(RELEASE, real=2, kcore=0, observers=1, dynamic=True, options=NO_OPS) as quorum:
        [kcore] = quorum.observers
        leader = quorum.leader()
        quorum.await_progress(kcore)
        add(quorum, leader, kcore)
        assert voters_of(quorum) == {1, 2, kcore.node_id}
        quorum.voters.append(kcore)
        leader.kill()
        rest = [each for each in quorum.voters if each is not leader]
        quorum.leader(*rest)
        quorum.await_progress()
        leader.start()
        quorum.await_progress(*quorum.voters)
        elect_real(quorum, kcore)  # Real nodes name only registered controllers to the tool, and kcore's is none.
        arguments = ("--controller-id", kcore.node_id, "--controller-directory-id", kcore.directory_id)
        tool(quorum.bootstrap, "remove-controller", *arguments)
        until(lambda: voters_of(quorum) == {1, 2}, lambda: quorum.described())
        quorum.await_progress()


def test_a_real_controller_describes_kcores_quorum() -> None:
    """All of them kcore's: Kafka's tool asks one that does not lead, and prints what kcore prints."""
    with RaftQuorum(RELEASE, real=0, kcore=3, dynamic=True) as quorum:
        leader = quorum.leader()
        other = next(each for each in quorum.kcore if each is not leader)
        for view in (["--status"], ["--replication"]):
            ours = [*KCORE, "describe", "--bootstrap-controller", other.address, *view]
            done = subprocess.run(ours, capture_output=True, text=True, check=True)
            assert masked(tool(other.address, "describe", *view)) == masked(done.stdout)
        assert re.search(r"^10\d .*\tLeader", done.stdout, re.MULTILINE)


def join_and_leave(quorum: RaftQuorum, leader: Member, joining: Member) -> None:
    """AddRaftVoter and RemoveRaftVoter, handled by kcore, which leads."""
    before = voters_of(quorum)
    quorum.await_progress(joining)
    add(quorum, leader, joining)
    quorum.voters.append(joining)
    assert voters_of(quorum) == {*before, joining.node_id}
    quorum.await_progress(*quorum.voters)
    arguments = ("--controller-id", joining.node_id, "--controller-directory-id", joining.directory_id)
    tool(leader.address, "remove-controller", *arguments)
    until(lambda: voters_of(quorum) == before, lambda: quorum.described())
    quorum.await_progress()


def test_kcore_joins_where_kcore_leads() -> None:
    with RaftQuorum(RELEASE, real=0, kcore=1, observers=1, dynamic=True, options=NO_OPS) as quorum:
        join_and_leave(quorum, quorum.kcore[0], quorum.observers[0])


def test_a_real_controller_joins_where_kcore_leads() -> None:
    with RaftQuorum(RELEASE, real=2, kcore=1, dynamic=True, properties=PATIENT, options=NO_OPS) as quorum:
        leader = elect_kcore(quorum)
        joining = quorum.join_real(3)
        join_and_leave(quorum, leader, joining)
        assert joining.is_running
