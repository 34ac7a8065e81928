"""One metadata directory, formatted by kcore, and then in turns Kafka's, killed, and kcore's."""

from pathlib import Path
from shutil import rmtree

import pytest

from kcore.raft.membership.replicas import Address, ElectionState, ReplicaKey, Voter
from kcore.server.quorum_node.workload import no_op_of
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from oracle.kafka_tools import RELEASE, dump_log
from oracle.raft_quorums import Member, RaftQuorum, until
from storage import building

ANY = 2**62
FEATURES = {
    "3.9.1": {"metadata.version": 21},
    "4.3.1": {"metadata.version": 30, "transaction.version": 2},
    "4.4.0": {"metadata.version": 33, "transaction.version": 2},
}


class FormattedByKcore(RaftQuorum):
    """One real controller in a directory that Kafka's tool has not made."""

    def format_real(self, node: Member) -> None:
        super().format_real(node)
        rmtree(node.data)
        endpoint = {"CONTROLLER": Address("127.0.0.1", node.port)}
        voter = Voter(ReplicaKey(node.node_id, Uuid(node.directory_id)), endpoint, 0, 1)
        format_directory(
            node.data,
            node_id=node.node_id,
            features=FEATURES[self.release],
            cluster_id=self.cluster_id,
            directory_id=voter.key.directory_id,
            initial_voters=(voter,) if self.dynamic else (),
        )


@pytest.mark.parametrize(("release", "dynamic"), [("3.9.1", False), ("4.3.1", True), ("4.4.0", False), ("4.4.0", True)])
def test_kafka_runs_in_a_directory_of_kcores_and_the_other_way_round(release: str, dynamic: bool) -> None:
    written, epoch = b"", 0
    with FormattedByKcore(release, real=1, kcore=0, dynamic=dynamic) as quorum:
        [node] = quorum.real
        for turn in range(2):
            if turn:
                node.start()
            wait_for_bytes(node, len(written) + 1000)
            node.kill()
            directory = RaftDirectory(node.data, node_id=node.node_id, cluster_id=quorum.cluster_id, voters=(1,))
            log, election = directory.open()
            assert election is not None and election.leader_id == node.node_id and election.epoch > epoch
            assert election.epoch == log.last_epoch
            now = b"".join(read(log))
            assert now.startswith(written) and scan_batches(now).crc_matches.all()
            directory.store_election(ElectionState(election.epoch + 1, -1, election.voted), int(dynamic))
            log.close()
            written, epoch = now, election.epoch + 1


def wait_for_bytes(node: Member, count: int) -> None:
    until(lambda: len(log_of(node)) > count, lambda: f"{len(log_of(node))} of {count} bytes")


def log_of(node: Member) -> bytes:
    return b"".join(path.read_bytes() for path in segment_files(node.log_folder)) if node.log_folder.exists() else b""


def read(log: DiskRaftLog) -> list[bytes]:
    pieces, offset = [], log.start_offset
    while piece := log.read(offset, 1 << 20, ANY):
        pieces.append(piece)
        offset = int(scan_batches(piece).last_offset[-1]) + 1
    return pieces


def test_kafka_cuts_what_kcore_had_flushed(caplog: pytest.LogCaptureFixture) -> None:
    """A former leader's end, which nobody else has: the recovery point of kcore's is beyond the end afterwards."""
    with RaftQuorum(RELEASE, real=3, kcore=0) as quorum:
        former = quorum.leader()
        former.kill()
        with DiskRaftLog(former.log_folder) as log:
            rows = [Record(log.end_offset + k, 0, None, no_op_of(0)) for k in range(10_000)]
            log.append_as_leader(encode_records(rows, partition_leader_epoch=log.last_epoch), log.last_epoch)
            end_offset = log.end_offset
        quorum.leader(*(node for node in quorum.real if node is not former))
        former.start()
        quorum.await_progress(former)
        former.kill()
        with DiskRaftLog(former.log_folder) as log:
            assert log.end_offset < end_offset
            assert scan_batches(b"".join(read(log))).crc_matches.all()
        assert f"not at {end_offset}: cut elsewhere" in caplog.text


def test_kafkas_dump_tool_reads_a_log_that_was_cut_and_recovered(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    settings = Settings(4000, 300)
    log = DiskRaftLog(folder, settings)
    for batch in building.batches(70, epoch=2):
        log.append_as_leader(batch, 2)
    log.abandon()
    last = segment_files(folder)[-1]
    last.write_bytes(last.read_bytes()[:-5])
    with DiskRaftLog(folder, settings) as log:
        assert log.end_offset == 69
        for batch in building.batches(20, first=69, epoch=3):
            log.append_as_leader(batch, 3)
    logs = segment_files(folder)
    theirs, _ = dump_log(logs)
    assert sum("isvalid: true" in line for line in theirs) == 89
    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]
    passed, complaints = dump_log(indexes, "--index-sanity-check")
    assert complaints == ""
    assert passed[1::2] == [f"{path} passed sanity check." for path in indexes]
