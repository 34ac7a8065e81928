"""Records of decisions and creations from columns equal records made one by one, and replay to the decision."""

from random import Random

import numpy as np
import pytest

from kcore.errors import TableError, UnwritableMetadataError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.partition_values import PartitionCreations, records_of_changes, records_of_creation
from kcore.types import Uuid
from kcore.wire.columns import Vectors
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.records import decode_records
from metadata.stories import BROKERS, Story, log_of
from reference import record_framing as framing
from reference import record_values as twin
from seeds import seeds

TIME_MS = 1_795_248_000_000


def lived(seed: int, count: int = 300) -> ClusterImage:
    story, image = Story(Random(seed)), ClusterImage()
    story.version = 2
    replay(image, log_of(story.values(count)))
    return image


def lists(dice: Random, count: int, most: int, least: int = 0) -> Vectors | None:
    """Lists of brokers, some of them null."""
    if dice.random() < 0.2:
        return None
    rows = [dice.sample(range(BROKERS), dice.randint(least, most)) for _ in range(count)]
    valid = np.array([dice.random() < 0.7 for _ in rows], np.bool_) if dice.random() < 0.8 else None
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return Vectors(offsets, np.array([each for row in rows for each in row], np.int32), valid)


def random_changes(image: ClusterImage, dice: Random) -> KraftChanges:
    known = np.flatnonzero(image.table.topic_row__p >= 0).tolist()
    rows = sorted(dice.sample(known, dice.randint(0, len(known))))
    count = len(rows)
    for broker in range(BROKERS):
        image.brokers.name(broker)
    changes = KraftChanges(np.array(rows, np.int32))
    changes.isr, changes.elr = lists(dice, count, 5), lists(dice, count, 3)
    changes.last_known_elr, changes.adding = lists(dice, count, 1), lists(dice, count, 2)
    changes.removing, changes.replicas = lists(dice, count, 2), lists(dice, count, 6, least=1)
    if dice.random() < 0.8:
        changes.leaders = np.array([dice.choice((-2, -2, -1, *range(BROKERS))) for _ in rows], np.int32)
    if dice.random() < 0.8:
        changes.recovery = np.array([dice.choice((-1, -1, 0, 1)) for _ in rows], np.int8)
    if dice.random() < 0.8:
        changes.directories = directories_for(image, changes, dice)
    return changes


def directories_for(image: ClusterImage, changes: KraftChanges, dice: Random) -> Vectors:
    counts, valid = [], []
    for k, row in enumerate(changes.rows.tolist()):
        moved = None if changes.replicas is None else changes.replicas[k]
        counts.append(image.table.replica_count(row) if moved is None else len(moved))
        valid.append(dice.random() < 0.6)
    known = len(image.directories)
    values = np.array([dice.randrange(known) for _ in range(sum(counts))], np.int32)
    return Vectors(np.cumsum([0, *counts]).astype(np.int32), values, np.array(valid, np.bool_))


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_changes_are_those_of_records_made_one_by_one(seed: int) -> None:
    image, dice = lived(seed), Random(seed)
    changes = random_changes(image, dice)
    records = twin.change_records(image, changes)
    encoded = records_of_changes(image.table, changes, "4.3.1")
    assert list(encoded) == [encode_metadata_record(record, 2) for record in records]
    assert len(encoded) == len(changes)
    decided, applied, replayed = image.copy(), image.copy(), image.copy()
    decided.apply_changes(changes)
    for record in records:
        applied.apply(record)
    replay(replayed, log_of(list(encoded))) if len(encoded) else None
    assert decided == applied == replayed


@pytest.mark.parametrize("seed", range(12))
def test_applied_changes_can_be_taken_back(seed: int) -> None:
    image, dice = lived(seed), Random(seed)
    changes = random_changes(image, dice)
    before = image.copy()
    image.keep_journal()
    image.keep_deltas(1000)
    image.begin(1000)
    image.apply_changes(changes, 1000)
    delta = image.changes_between(1000, 1001)
    assert delta is not None and delta.rows.tolist() == changes.rows.tolist()
    image.revert_to(1000)
    assert image == before


def test_what_an_older_level_cannot_say_is_refused() -> None:
    image = lived(1)
    row = int(np.flatnonzero(image.table.topic_row__p >= 0)[0])
    rows, nobody = np.array([row], np.int32), Vectors(np.zeros(2, np.int32), np.empty(0, np.int32))
    records_of_changes(image.table, KraftChanges(rows, elr=nobody), "4.0-IV1")
    records_of_changes(image.table, KraftChanges(rows, elr=nobody), "4.0-IV0@3.9.1")
    for level in ("4.0-IV0", "3.9.1"):
        with pytest.raises(UnwritableMetadataError, match="eligible leader replicas"):
            records_of_changes(image.table, KraftChanges(rows, elr=nobody), level)
    records_of_changes(image.table, KraftChanges(rows, directories=nobody), "3.7-IV2")
    with pytest.raises(UnwritableMetadataError, match=r"3\.7-IV1 cannot represent the directory assignment"):
        records_of_changes(image.table, KraftChanges(rows, directories=nobody), "3.7-IV1")
    plain = records_of_changes(image.table, KraftChanges(rows, leaders=np.array([-1], np.int32)), "3.3-IV3")
    assert decode_metadata_record(next(iter(plain)))[1] == 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"rows": [9999]}, "rows of row 0 is 9999"),
        ({"isr": Vectors(np.array([0, 2], np.int32), np.array([1], np.int32))}, "offsets must rise"),
        ({"isr": Vectors(np.array([0, 1, 1], np.int32), np.array([1], np.int32))}, "lists of 1 changes"),
        ({"isr": Vectors(np.array([1, 1], np.int32), np.array([1], np.int32))}, "offsets must rise"),
        ({"directories": Vectors(np.array([0, 1], np.int32), np.array([999], np.int32))}, "directory of row 0 is 999"),
    ],
)
def test_changes_that_fit_no_table_are_refused(changes: dict, fault: str) -> None:
    image = lived(1)
    row = int(np.flatnonzero(image.table.topic_row__p >= 0)[0])
    with pytest.raises(TableError, match=fault):
        records_of_changes(image.table, KraftChanges(**{"rows": np.array([row]), **changes}), "4.3.1")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"isr": Vectors(np.array([0, 1], np.int32), np.array([99], np.int32))}, "unknown broker 99"),
        ({"isr": Vectors(np.array([0, 2], np.int32), np.array([1, 1], np.int32))}, "names a broker twice"),
        ({"isr": Vectors(np.array([0, 0, 0], np.int32), np.empty(0, np.int32))}, "2 lists for 1 rows"),
        ({"replicas": Vectors(np.array([0, 0], np.int32), np.empty(0, np.int32))}, "has no replicas"),
        ({"directories": Vectors(np.array([0, 7], np.int32), np.zeros(7, np.int32))}, "7 directories for the"),
        ({"leaders": np.array([99], np.int32)}, "unknown broker 99"),
        ({"leaders": np.array([1, 1], np.int32)}, "leaders has shape"),
        ({"recovery": np.array([2], np.int8)}, "leader recovery state of row 0 is 2"),
        ({"adding": Vectors(np.array([0, 1], np.int32), np.array([99], np.int32))}, "unknown broker 99"),
    ],
)
def test_changes_that_do_not_fit_change_nothing(changes: dict, fault: str) -> None:
    image = lived(1)
    for broker in range(BROKERS):
        image.brokers.name(broker)
    before = image.copy()
    row = int(np.flatnonzero(image.table.topic_row__p >= 0)[0])
    with pytest.raises(TableError, match=fault):
        image.apply_changes(KraftChanges(**{"rows": np.array([row]), **changes}))
    assert image == before


def test_creation() -> None:
    image = lived(2)
    for broker in range(BROKERS):
        image.brokers.name(broker)
    [directory] = image.directories.name([Uuid(bytes([200] * 16))])
    known = next(name for name in image.topics.names if name)
    numbers = image.table.partition_index__p[image.table.rows_of_topic(known)]
    first = int(numbers[numbers < 1000].max(initial=-1)) + 1
    created = PartitionCreations(
        names=["new", known, "empty"],
        topic_ids=[Uuid(bytes([77] * 16)), image.topic_ids[known], Uuid(bytes([78] * 16))],
        is_new=[True, False, True],
        topics=[0, 0, 1],
        partitions=[0, 1, first],
        replicas=[[1, 2, 3], [3, 4, -1], [5, -1, -1]],
        directories=[[1, directory, 1], [1, 1, 0], [1, 0, 0]],
    )
    values = list(records_of_creation(image.brokers, created, "4.3.1"))
    assert [value[1] for value in values] == [2, 3, 3, 3, 2]
    replay(image, log_of(values))
    found = image.partition("new", 0)
    assert (found.replicas, found.isr, found.leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert (found.leader_epoch, found.partition_epoch, found.leader_recovery_state) == (0, 0, 0)
    assert found.directories[1] == Uuid(bytes([200] * 16)) and image.partition("new", 1).replicas == (3, 4)
    assert image.partition(known, first).replicas == (5,) and "empty" in image.topics


def test_creations_that_do_not_fit_are_refused() -> None:
    image = ClusterImage()
    image.brokers.name(1)
    whole = {"names": ["a"], "topic_ids": [Uuid(bytes([1] * 16))], "is_new": [True]}
    whole |= {"topics": [0], "partitions": [0], "replicas": [[1]]}
    for given, error, fault in [
        ({"replicas": [[2]]}, TableError, "unknown broker 2"),
        ({"topics": [1]}, TableError, "topic of row 0 is 1"),
        ({"leaders": [1, 1]}, TableError, "a leader for each partition"),
        ({"directories": [[9]]}, TableError, "directories of row 0"),
        ({"directories": [[1]]}, UnwritableMetadataError, "directory assignment"),
    ]:
        with pytest.raises(error, match=fault):
            records_of_creation(image.brokers, PartitionCreations(**{**whole, **given}), "3.6-IV2")


@pytest.mark.parametrize("seed", seeds(15, 30))
def test_batches_are_those_of_the_twin(seed: int) -> None:
    dice = Random(seed)
    sizes = [dice.choice((0, 1, 40, 62, 63, 64, 200, 9000)) for _ in range(dice.randrange(200))]
    values = [dice.randbytes(size) for size in sizes]
    place = dice.randrange(2**40), dice.randrange(2**31), TIME_MS + seed
    most = dice.choice((61, 200, 5000, 1 << 20))
    encoded = EncodedRecords.of(values)
    found = list(encoded.batches(place[0], epoch=place[1], timestamp=place[2], max_bytes=most))
    assert [bytes(each) for each in found] == framing.batches(values, *place, most)
    if values:
        decoded = decode_records(b"".join(found))
        assert [record.value for record in decoded] == values
        assert decoded.offset.tolist() == list(range(place[0], place[0] + len(values)))


def test_batches_of_many_records() -> None:
    """Offset deltas of three bytes."""
    values = [b"x" * (k % 70) for k in range(20_000)]
    [batch] = EncodedRecords.of(values).batches(7, epoch=3, timestamp=TIME_MS)
    assert bytes(batch) == framing.one(values, 7, 3, TIME_MS)
