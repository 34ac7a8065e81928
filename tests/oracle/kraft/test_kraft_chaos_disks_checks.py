"""The checks of `disk_chaos` find what they are for: lost records, records there twice, replicas that are elsewhere."""

from pathlib import Path

import numpy as np
import pytest

from kcore.errors import DecodeError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.metadata_records_topics import PartitionRecord, TopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.server.quorum_node.directory_watch import DirectoryWatch
from kcore.storage.log.segment import segment_path
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.records import decode_records
from oracle.chaos.disk_chaos import OF_LOST
from oracle.chaos.disk_checks import (
    Place,
    check_replicas_equal,
    fullest,
    records_in,
    unexpected,
    waiting_for_operator,
    wrong_in_image,
    wrong_leaders,
    wrong_places,
)
from oracle.chaos.disk_clients import KEYS, TOPICS, Key, Read, check_found
from oracle.chaos.disk_cluster import BROKERS
from oracle.chaos.disk_faults import CONTROLLER, KINDS, PAUSED, kinds_of, round_of
from oracle.chaos.kraft_registers import Violation
from storage import building

A: Key = ("orders", 0)
B: Key = ("orders", 1)
FOUND = {A: [Read(0, 0), Read(1, 2)], B: [Read(0, 1), Read(1, 3)]}


def test_acknowledged_records_are_there_once_and_in_order() -> None:
    check_found(FOUND, [0, 1, 2, 3])
    check_found(FOUND, [0, 3])
    with pytest.raises(Violation, match=r"1 acknowledged records are lost, such as \[4\]"):
        check_found(FOUND, [0, 4])
    with pytest.raises(Violation, match="record 2 is in"):
        check_found(FOUND | {A: [*FOUND[A], Read(2, 2)]}, [])
    with pytest.raises(Violation, match="record 3 is in"):
        check_found(FOUND | {A: [*FOUND[A], Read(2, 3)]}, [])
    with pytest.raises(Violation, match="comes behind"):
        check_found({A: [Read(0, 2), Read(1, 0)]}, [])


def a_log(folder: Path, *numbers: int) -> Path:
    """One batch a record."""
    folder.mkdir()
    batches = [building.batch(offset, [f"{number:010}...".encode()]) for offset, number in enumerate(numbers)]
    segment_path(folder, 0).write_bytes(b"".join(batches))
    return folder


def test_replicas_are_equal_byte_for_byte(tmp_path: Path) -> None:
    for broker_id in (1, 2, 3, 4):
        (tmp_path / str(broker_id)).mkdir()
    folders = {Place(A, each): a_log(tmp_path / str(each) / "orders-0", 5, 6, 8) for each in (1, 2)}
    check_replicas_equal(folders)
    for broker_id, numbers in ((3, (5, 6)), (4, (5, 7, 8))):
        other = a_log(tmp_path / str(broker_id) / "orders-0", *numbers)
        with pytest.raises(Violation, match="differ"):
            check_replicas_equal({**folders, Place(A, 3): other})


def test_the_fullest_replica_is_the_one_of_the_last_epoch(tmp_path: Path) -> None:
    folders = {}
    for broker_id, (epoch, count) in {1: (1, 3), 2: (2, 2), 3: (2, 1)}.items():
        folder = folders[Place(A, broker_id)] = tmp_path / str(broker_id) / "orders-0"
        folder.mkdir(parents=True)
        data = [building.batch(offset, [b"0"], epoch=epoch) for offset in range(count)]
        segment_path(folder, 0).write_bytes(b"".join(data))
    assert fullest(folders, A) == 2


def test_the_records_of_a_file_are_read_and_a_flipped_bit_is_found(tmp_path: Path) -> None:
    folder = a_log(tmp_path / "orders-0", 5, 6, 8)
    assert records_in(folder) == [Read(0, 5), Read(1, 6), Read(2, 8)]
    path = segment_path(folder, 0)
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    data[-5] ^= 1
    path.write_bytes(data.tobytes())
    with pytest.raises(DecodeError):
        records_in(folder)


# Lines of the controller's log.


def directory(broker_id: int) -> Uuid:
    return Uuid(bytes([broker_id]) * 16)


def image(*, fenced: int = 0, lost: int = 0, leader: int = 1, isr: tuple[int, ...] = BROKERS) -> ClusterImage:
    """All topics on all brokers; `lost`: whose directory is another one; `leader`, `isr`: of the last partition."""
    records: list[MetadataRecord] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    for broker_id in BROKERS:
        incarnation_id = Uuid(bytes(15) + bytes([broker_id]))
        is_fenced = broker_id == fenced
        records.append(
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=incarnation_id,
                broker_epoch=1,
                fenced=is_fenced,
                log_dirs=[directory(9 if broker_id == lost else broker_id)],
            )
        )
    for number, (name, count) in enumerate(TOPICS.items(), 1):
        topic_id = Uuid(bytes(15) + bytes([number]))
        records.append(TopicRecord(name=name, topic_id=topic_id))
        for index in range(count):
            is_last = (name, index) == KEYS[-1]
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=[*BROKERS],
                    isr=[*(isr if is_last else BROKERS)],
                    leader=leader if is_last else 1,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[directory(each) for each in BROKERS],
                )
            )
    made = ClusterImage()
    values = EncodedRecords.of([encode_metadata_record(each, each.versions.highest) for each in records])
    for batch in values.batches(0, epoch=1, timestamp=0):
        replay(made, decode_records(bytes(batch)))
    return made


def test_brokers_are_unfenced_and_isrs_whole() -> None:
    assert not wrong_in_image(image())
    assert wrong_in_image(image(fenced=2)) == "brokers [2] are fenced"
    assert "leader -1" in wrong_in_image(image(leader=-1))
    assert "ISR (1, 3)" in wrong_in_image(image(isr=(1, 3)))


def test_partitions_have_leaders_while_a_disk_is_lost() -> None:
    assert not wrong_leaders(image(isr=(1, 3)))
    assert "has no leader" in wrong_leaders(image(leader=-1))
    assert "is led by 1" in wrong_leaders(image(fenced=1))
    assert "is led by 1" in wrong_leaders(image(lost=1))
    assert not waiting_for_operator(image(leader=-1)) and not waiting_for_operator(image())
    assert waiting_for_operator(image(leader=-1, isr=())) == [KEYS[-1]]
    assert not waiting_for_operator(image(leader=-1, isr=(), fenced=2))


def test_replicas_are_where_the_controller_has_them() -> None:
    paths = {each: Path(f"/{each}") for each in BROKERS}
    ids = {path: directory(each) for each, path in paths.items()}
    found = {Place(key, each): paths[each] / f"{key[0]}-{key[1]}" for key in KEYS for each in BROKERS}
    assert not wrong_places(image(), found, ids)
    elsewhere = Path("/other/orders-0")
    ids[elsewhere.parent] = directory(9)
    assert "not in" in wrong_places(image(), found | {Place(A, 2): elsewhere}, ids)
    del found[Place(A, 2)]
    assert "1 replicas are on no disk" in wrong_places(image(), found, ids)


def test_what_no_fault_excuses_is_found_in_a_log() -> None:
    said = [
        "... INFO all is well",
        "... ERROR log directory /x goes offline: gone",
        "Traceback (most recent call last):",
    ]
    assert unexpected(said, ["goes offline: "]) == ["Traceback (most recent call last):"]
    assert unexpected(said[:2], ()) == [said[1]]
    assert unexpected(["... CRITICAL it cannot go on"], ()) == ["... CRITICAL it cannot go on"]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_lost_disk_explains_that_the_metadata_log_is_gone(
    is_replaced: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    watch = DirectoryWatch(folder)
    folder.rename(tmp_path / "away")
    if is_replaced:
        folder.mkdir()
    watch.look()
    [logged] = [f"... {record.levelname} {record.getMessage()}" for record in caplog.records]
    assert unexpected([logged], ()) == [logged]
    assert unexpected([logged], OF_LOST) == []


# The plan.


def test_a_round_costs_the_data_of_one_broker_at_most() -> None:
    """And the kinds have their turns; the same seed gives the same rounds."""
    for seed in range(5):
        rounds = [round_of(seed, number) for number in range(200)]
        assert rounds == [round_of(seed, number) for number in range(200)]
        assert {fault.kind for each in rounds for fault in each.faults} == {*KINDS}
        for each in rounds:
            costly = {fault.broker_id for fault in each.faults if fault.kind not in (CONTROLLER, PAUSED)}
            assert costly <= {each.victim}
            asleep = [fault.broker_id for fault in each.faults if fault.kind == PAUSED]
            assert len(asleep) <= 1 and each.victim not in asleep
    struck = [{each.broker_id for each in round_of(0, number, anybody=True).faults} - {0} for number in range(200)]
    assert any(len(each) == 3 for each in struck)
    without = [round_of(0, number, mounted=False) for number in range(200)]
    assert {fault.kind for each in without for fault in each.faults} == {*kinds_of(mounted=False)} < {*KINDS}
