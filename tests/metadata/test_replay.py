"""Replaying records in bulk gives the image and the error of replaying them one by one."""

from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import DecodeError, TableError
from kcore.metadata.image import replay as bulk
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table import partition_rows
from kcore.schema.metadata_records_settings import ClientQuotaRecord, EntityData
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, Records, decode_records
from reference import replay as twin
from seeds import seeds

TIME_MS = 1_795_248_000_000
DIRECTORIES = [Uuid(bytes([k] * 16)) for k in range(9)]


@pytest.fixture(params=[(0, 5), (0, 1 << 14), (9, 40)], ids=["pieces", "at once", "topics alone"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    few, at_once = request.param
    monkeypatch.setattr(bulk, "FEW_TOPICS", few)
    monkeypatch.setattr(bulk, "AT_ONCE", at_once)
    monkeypatch.setattr(bulk, "REMOVED_AT_ONCE", at_once)
    monkeypatch.setattr(partition_rows, "FREED_AT_ONCE", at_once)


def log_of(values: list[bytes], codec: str = "none", first: int = 0) -> Records:
    rows = [Record(first + k, TIME_MS, None, value) for k, value in enumerate(values)]
    return decode_records(encode_records(rows, codec=codec))


def outcome(apply: Any, *logs: Records, start_offset: int = 0) -> tuple[Any, ClusterImage | None]:
    """The error, or the image; the contents of an image after an error are undefined."""
    image = ClusterImage()
    try:
        for log in logs:
            apply(image, log, start_offset)
    except (DecodeError, TableError) as error:
        return (type(error), str(error), getattr(error, "offset", None)), None
    return None, image


def assert_like_twin(*logs: Records, start_offset: int = 0) -> Any:
    found = outcome(bulk.replay, *logs, start_offset=start_offset)
    assert found == outcome(twin.replay, *logs, start_offset=start_offset)
    return found[0]


class Story:
    """Records of a cluster's history, most of which fit; `wild` of a thousand do not."""

    def __init__(self, seed: int, wild: int = 0) -> None:
        self.dice, self.wild = Random(seed), wild
        self.topics: dict[Uuid, dict[int, int]] = {}  # Replicas by partition.
        self.made, self.version = 0, self.dice.randrange(3)
        self.open = False

    def values(self, count: int) -> list[bytes]:
        # Bulk replay is for stretches of one kind.
        kinds = [self.topic, self.partition, self.change, self.config, self.broker, self.rare]
        values: list[bytes] = []
        while len(values) < count:
            weights = self.dice.choice(
                [(3, 12, 0, 1, 1, 0), (0, 0, 20, 1, 0, 0), (2, 5, 9, 1, 1, 1), (0, 1, 0, 20, 0, 0)]
            )
            for kind in self.dice.choices(kinds, weights, k=self.dice.randrange(1, 60)):
                values += [value if self.dice.randrange(1000) >= self.wild else self.spoilt(value) for value in kind()]
        if self.open:
            self.open = False
            values.append(encode_metadata_record(s.EndTransactionRecord(), 0))
        return values

    def spoilt(self, value: bytes) -> bytes:
        at = self.dice.randrange(len(value))
        return self.dice.choice(
            [value[:at], value + b"\0", value[:at] + bytes([value[at] ^ 1 << at % 8]) + value[at + 1 :]]
        )

    def brokers(self, count: int) -> list[int]:
        return self.dice.sample(range(20), count)

    def lists(self) -> list[int]:
        return self.brokers(self.dice.choice((0, 0, 0, 0, 1, 2)))

    def directories(self, count: int) -> list[Uuid]:
        return self.dice.choices(DIRECTORIES, k=count)

    def topic(self) -> list[bytes]:
        self.made += 1
        topic_id = Uuid(self.dice.randbytes(16))
        self.topics[topic_id] = {}
        return [encode_metadata_record(s.TopicRecord(name=f"tö{self.made}"[self.made % 2 :], topic_id=topic_id), 0)]

    def partition(self) -> list[bytes]:
        if not self.topics:
            return self.topic()
        topic_id = self.dice.choice(list(self.topics)[-2:])
        again = self.dice.random() < self.wild / 1000
        index = len(self.topics[topic_id]) - again
        replicas = self.brokers(self.dice.randrange(1, 5))
        self.topics[topic_id][index] = len(replicas)
        record = s.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas[: self.dice.randrange(1, 5)],
            adding_replicas=self.lists(),
            removing_replicas=self.lists(),
            leader=replicas[0],
            leader_recovery_state=self.dice.choice((0, 0, 1)),
            leader_epoch=self.dice.randrange(5),
            partition_epoch=self.dice.randrange(9),
        )
        if self.version:
            record.directories = self.directories(len(replicas) if self.dice.random() < 0.95 else 0)
        if self.version == 2:
            record.eligible_leader_replicas = self.dice.choice((None, [], [1, 2]))
        return [encode_metadata_record(record, self.version)]

    def change(self) -> list[bytes]:
        known = [(topic_id, index) for topic_id, indexes in list(self.topics.items())[-6:] for index in indexes]
        if not known:
            return self.partition()
        topic_id, index = self.dice.choice(known)
        record = s.PartitionChangeRecord(topic_id=topic_id, partition_id=index)
        if self.dice.random() < 0.7:
            record.isr = self.brokers(self.dice.randrange(5))
        if self.dice.random() < 0.5:
            record.leader = self.dice.choice((-1, 0, 1, 2))
        if self.dice.random() < 0.1:
            record.leader_recovery_state = self.dice.choice((0, 1))
        if self.dice.random() < 0.03:
            record.replicas = self.brokers(self.dice.randrange(1, 6))
            self.topics[topic_id][index] = len(record.replicas)
        if self.dice.random() < 0.1:
            record.adding_replicas, record.removing_replicas = self.lists(), self.lists()
        if self.version and self.dice.random() < 0.2:
            record.directories = self.directories(self.topics[topic_id][index])
        if self.version == 2 and self.dice.random() < 0.3:
            record.eligible_leader_replicas, record.last_known_elr = self.lists(), self.lists()
        return [encode_metadata_record(record, self.version)]

    def config(self) -> list[bytes]:
        kind, name, key, value = map(self.dice.choice, ((2, 2, 4), ("t", "t", "ü"), "kl", (None, "1", "2")))
        record = s.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        return [encode_metadata_record(record, 0)]

    def broker(self) -> list[bytes]:
        number = self.dice.randrange(20)
        return [encode_metadata_record(s.RegisterBrokerRecord(broker_id=number, broker_epoch=self.made, rack="r"), 3)]

    def rare(self) -> list[bytes]:
        kind = self.dice.randrange(6)
        if kind == 0 and self.topics:
            topic_id = self.dice.choice(list(self.topics))
            del self.topics[topic_id]
            return [encode_metadata_record(s.RemoveTopicRecord(topic_id=topic_id), 0)]
        if kind == 1:
            self.open = not self.open
            return [encode_metadata_record(s.BeginTransactionRecord() if self.open else s.EndTransactionRecord(), 0)]
        if kind == 2:
            return [encode_metadata_record(s.ClearElrRecord(topic_name=""), 0)]
        if kind == 3:
            self.version = min(2, self.version + 1)
        if kind == 4:  # Two bytes for a type that fits in one: unusual, but valid.
            value = encode_metadata_record(s.NoOpRecord(), 0)
            return [value[:1] + bytes([value[1] | 0x80, 0]) + value[2:]]
        return []


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("seed", seeds(5, 12))
def test_a_story_in_bulk_is_the_story_one_by_one(seed: int) -> None:
    story = Story(seed)
    first, second = story.values(300), story.values(200)
    codec = ("none", "zstd")[seed % 2]
    error = assert_like_twin(log_of(first[:150], codec), log_of(first[150:] + second, first=150))
    assert error is None


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("seed", seeds(10, 30))
def test_what_does_not_fit_ends_in_the_same_error(seed: int) -> None:
    assert_like_twin(log_of(Story(seed, wild=4).values(400)))


def test_wild_stories_do_end_in_errors_of_both_kinds() -> None:
    errors = {outcome(bulk.replay, log_of(Story(seed, wild=4).values(400)))[0] for seed in range(30)}
    assert {None, DecodeError, TableError} == {error and error[0] for error in errors}


@pytest.fixture
def story() -> list[bytes]:
    return Story(1).values(200)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\2\x14\0\0", "a frame of version 2, not 1"),
        (b"\1\x7f\0\0", "no metadata record is of type 127"),
        (b"\1\3\3\0", r"PartitionRecord has versions 0-2, not 3"),
        (b"\1\2\1\0", r"TopicRecord has versions 0, not 1"),
        (b"", "the bytes end inside a varint"),
        (b"\1", "the bytes end inside a varint"),
        (b"\1\3", "the bytes end inside a varint"),
        (b"\1\5\1", "PartitionChangeRecord"),
        (b"\1\3\1" + bytes(9), "PartitionRecord"),
        (encode_metadata_record(s.PartitionChangeRecord(topic_id=DIRECTORIES[8]), 1), "unknown topic id"),
        (encode_metadata_record(s.PartitionRecord(topic_id=DIRECTORIES[8]), 1), "unknown topic id"),
    ],
)
def test_the_first_error_ends_the_replay(story: list[bytes], value: bytes, said: str) -> None:
    error = assert_like_twin(log_of([*story[:120], value, *story[120:], b"\3"]))
    assert error is not None and said.replace("\\", "") in error[1] and "record 120:" in error[1]


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (encode_metadata_record(s.ConfigRecord(name="key"), 0).replace(b"key", b"k\xff\xff"), "is not UTF-8"),
        (b"\1\4\1\0", "ConfigRecord has versions 0, not 1"),
        (b"\1\3\3\0", "PartitionRecord has versions 0-2, not 3"),
        (b"\1\3\1" + bytes(9), "PartitionRecord"),
        (b"\1\2\0" + bytes(9), "TopicRecord: name: null"),
        (b"\1\5\1", "PartitionChangeRecord"),
    ],
)
@pytest.mark.parametrize("in_transaction", [False, True])
def test_an_invalid_record_is_found_among_records_decoded_together(
    story: list[bytes], value: bytes, said: str, in_transaction: bool
) -> None:
    """In a transaction, too, which does not end."""
    begin = [encode_metadata_record(s.BeginTransactionRecord(), 0)] if in_transaction else []
    settings = [value for value in Story(2).values(400) if value[1] == s.ConfigRecord.api_key]
    topics = [value for value in Story(3).values(200) if value[1] == s.TopicRecord.api_key]
    values = [*begin, *topics, *settings[:20]]
    error = assert_like_twin(log_of([*values, value, *settings[20:]]))
    assert error is not None and f"record {len(values)}:" in error[1] and said in error[1], error


@pytest.mark.usefixtures("sizes")
def test_reading_begins_at_an_offset() -> None:
    values = Story(3).values(100)
    changes = [encode_metadata_record(s.NoOpRecord(), 0)] * 5
    assert_like_twin(log_of(values), log_of(values + changes), start_offset=0)
    image, again = (
        ClusterImage(),
        log_of([*values, encode_metadata_record(s.TopicRecord(name="new", topic_id=DIRECTORIES[1]), 0)]),
    )
    bulk.replay(image, log_of(values))
    bulk.replay(image, again, len(values))
    assert list(image.topic_ids)[-1] == "new"


@pytest.mark.usefixtures("sizes")
def test_late_topics_and_repeated_partitions_are_replayed_one_by_one() -> None:
    topic = encode_metadata_record(s.TopicRecord(name="a", topic_id=DIRECTORIES[1]), 0)
    twice = encode_metadata_record(s.TopicRecord(name="b", topic_id=DIRECTORIES[1]), 0)
    partitions = [
        encode_metadata_record(
            s.PartitionRecord(topic_id=DIRECTORIES[1], partition_id=k, replicas=[k], isr=[k], leader=k), 0
        )
        for k in range(60)
    ]
    assert assert_like_twin(log_of([*partitions, topic])) is not None
    assert assert_like_twin(log_of([topic, *partitions, *partitions[:3]])) is None
    assert assert_like_twin(log_of([topic, *partitions[:9]]), log_of(partitions[3:])) is None
    assert assert_like_twin(log_of([topic, twice, *partitions])) is not None
    assert assert_like_twin(log_of([topic, topic, *partitions])) is not None


@pytest.mark.usefixtures("sizes")
def test_replicas_that_move_twice_take_their_directories_along() -> None:
    made = [
        encode_metadata_record(s.TopicRecord(name="a", topic_id=DIRECTORIES[1]), 0),
        encode_metadata_record(
            s.PartitionRecord(topic_id=DIRECTORIES[1], partition_id=0, replicas=[1, 2], directories=DIRECTORIES[3:5]), 1
        ),
    ]

    def change(**fields: Any) -> bytes:
        return encode_metadata_record(s.PartitionChangeRecord(topic_id=DIRECTORIES[1], partition_id=0, **fields), 1)

    moves = [change(replicas=[1, 2, 3]), change(directories=DIRECTORIES[:3]), change(replicas=[4]), change(leader=4)]
    there_and_back = [change(replicas=[1, 2, 3]), change(replicas=[4, 5])]
    for order in (moves, moves[2:], moves[:1], [moves[0], moves[0], moves[1]], there_and_back):
        assert assert_like_twin(log_of(made), log_of(order)) is None
    assert assert_like_twin(log_of(made), log_of([moves[1], moves[0]])) is not None


@pytest.mark.usefixtures("sizes")
def test_what_topics_and_others_both_see_keeps_its_place() -> None:
    made = [
        encode_metadata_record(s.TopicRecord(name="a", topic_id=DIRECTORIES[1]), 0),
        encode_metadata_record(s.PartitionRecord(topic_id=DIRECTORIES[1], partition_id=0, replicas=[1, 2]), 0),
    ]
    change = s.PartitionChangeRecord(topic_id=DIRECTORIES[1], partition_id=0, leader=1, eligible_leader_replicas=[2])
    changes = [encode_metadata_record(change, 2)] * 4
    for record, is_error in (
        (s.RemoveTopicRecord(topic_id=DIRECTORIES[1]), True),
        (s.ClearElrRecord(topic_name="a"), False),
        (s.BeginTransactionRecord(), False),
    ):
        between = encode_metadata_record(record, 0)
        assert (assert_like_twin(log_of([*made, *changes, between, *changes])) is not None) == is_error
        assert assert_like_twin(log_of([*made, *changes, between])) is None
    aborted = [encode_metadata_record(record, 0) for record in (s.BeginTransactionRecord(), s.AbortTransactionRecord())]
    assert assert_like_twin(log_of([*made, aborted[0], *changes, aborted[1], changes[0]])) is None
    assert assert_like_twin(log_of([aborted[0], *made, aborted[1], *changes])) is not None


@pytest.mark.usefixtures("sizes")
def test_an_end_of_a_transaction_with_bytes_left_over_is_none() -> None:
    """Found by ci/mutants: the transaction's records are not applied."""
    begin, end = (encode_metadata_record(each, 0) for each in (s.BeginTransactionRecord(), s.EndTransactionRecord()))
    topic = encode_metadata_record(s.TopicRecord(name="a", topic_id=DIRECTORIES[1]), 0)
    error = assert_like_twin(log_of([begin, topic, end + b"\0"]))
    assert error is not None and "bytes are left over" in error[1]
    assert assert_like_twin(log_of([begin, topic, end])) is None


@pytest.mark.usefixtures("sizes")
def test_an_epoch_at_its_end_does_not_rise() -> None:
    partition = s.PartitionRecord(topic_id=DIRECTORIES[1], partition_id=0, replicas=[1], leader_epoch=2**31 - 2)
    values = [
        encode_metadata_record(s.TopicRecord(name="a", topic_id=DIRECTORIES[1]), 0),
        encode_metadata_record(partition, 0),
        encode_metadata_record(s.PartitionChangeRecord(topic_id=DIRECTORIES[1], partition_id=0, leader=1), 0),
    ]
    image = ClusterImage()
    bulk.replay(image, log_of(values))
    assert image.partition("a", 0).leader_epoch == 2**31 - 1
    assert assert_like_twin(log_of([*values, values[2]])) is not None
    with pytest.raises(TableError, match="an epoch that cannot rise"):
        bulk.replay(image, log_of(values[2:]))


def test_what_the_kernel_does_not_take_costs_no_call_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call costs as much as twenty settings that are applied."""
    calls: list[Any] = []
    monkeypatch.setattr(bulk.kernel, "run", lambda *given: calls.append(given))
    setting = s.ConfigRecord(resource_type=16, resource_name="x", name="interval.ms", value="1000")
    image = ClusterImage()
    bulk.replay(image, log_of([encode_metadata_record(setting, 0)] * 100))
    assert not calls and len(image.configs) == 1


def parts_of(records: Records, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """With a journal: for each part, the number of batches that begin in it and of records applied one by one."""
    image = ClusterImage()
    image.keep_journal()
    counts, begin, one = [0, 0], ClusterImage.begin, bulk._Replay._one_by_one

    def count_batch(image: ClusterImage, offset: int, epoch: int) -> None:
        counts[0] += 1
        begin(image, offset, epoch)

    def count_record(replaying: Any, place: int) -> None:
        counts[1] += 1
        one(replaying, place)

    monkeypatch.setattr(ClusterImage, "begin", count_batch)
    monkeypatch.setattr(bulk._Replay, "_one_by_one", count_record)
    batches, records_alone = [], []
    for _ in bulk.replaying(image, records):
        batches.append(counts[0])
        records_alone.append(counts[1])
        counts[:] = 0, 0
    return [*batches, counts[0]], [*records_alone, counts[1]]


def test_a_log_of_small_batches_is_replayed_in_parts_of_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A starting controller answers votes and fetches between two parts, with any log."""
    value = encode_metadata_record(s.NoOpRecord(), 0)
    rows = [encode_records([Record(offset, TIME_MS, None, value)]) for offset in range(1_000)]
    batches, _ = parts_of(decode_records(b"".join(rows)), monkeypatch)
    assert sum(batches) == 1_000 and max(batches) <= bulk.BATCHES_AT_ONCE


def test_records_that_no_kernel_takes_are_applied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [
        encode_metadata_record(
            ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=f"u{k}")], key="a", value=1.0), 0
        )
        for k in range(2_000)
    ]
    _, one_by_one = parts_of(log_of(values), monkeypatch)
    assert sum(one_by_one) == 2_000 and max(one_by_one) <= bulk.ONE_BY_ONE_AT_ONCE


def test_batches_of_records_that_no_kernel_takes_are_replayed_in_parts_of_few_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch of at most that many is never divided; a larger one has parts of its own."""
    values = [
        encode_metadata_record(
            ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=f"u{k}")], key="a", value=1.0), 0
        )
        for k in range(2_000)
    ]
    rows = [
        encode_records([Record(first + at, TIME_MS, None, values[first + at]) for at in range(200)])
        for first in range(0, 2_000, 200)
    ]
    _, one_by_one = parts_of(decode_records(b"".join(rows)), monkeypatch)
    assert sum(one_by_one) == 2_000 and max(one_by_one) <= bulk.IN_BATCHES_AT_ONCE


def test_settings_in_a_row_are_applied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = s.ConfigRecord(resource_type=16, resource_name="x", name="interval.ms", value="1000")
    sizes: list[int] = []
    apply = bulk._Replay._set_configs

    def counted(replaying: Any, begin: int, end: int) -> bool:
        sizes.append(end - begin)
        return apply(replaying, begin, end)

    monkeypatch.setattr(bulk._Replay, "_set_configs", counted)
    parts = [len(sizes) for _ in bulk.replaying(ClusterImage(), log_of([encode_metadata_record(setting, 0)] * 5_000))]
    assert sum(sizes) == 5_000 and max(sizes) <= bulk.SETTINGS_AT_ONCE
    assert {*range(len(sizes))} <= {0, *parts}, "between two of them other events have their turn"
