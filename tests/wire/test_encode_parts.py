"""A large message in parts has the bytes and the errors of the whole."""

from collections import deque

import pytest

from kcore.errors import EncodeError
from kcore.schema.partitions import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kcore.wire.codec import encode, encode_parts

MOST_BYTES = 1 << 20


def created(topics: int) -> CreateTopicsResponse:
    configs = [CreatableTopicConfigs(name=f"config.{number}", value="1" * 20) for number in range(30)]
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=f"t{each}", configs=configs) for each in range(topics)]
    )


def elected(topics: int, partitions: int) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=f"t{topic}",
            partition_result=[PartitionResult(partition_id=each, error_message="x" * 40) for each in range(partitions)],
        )
        for topic in range(topics)
    ]
    return ElectLeadersResponse(replica_election_results=results)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("topics", "partitions"), [(0, 0), (1, 0), (1, 200_000), (3, 70_000), (50_000, 2)], ids=lambda count: f"{count:,}"
)
def test_elections_in_parts(topics: int, partitions: int, version: int) -> None:
    message = elected(topics, partitions)
    check(message, version, are_many=topics * partitions > 50_000)


@pytest.mark.parametrize("version", [4, 5, 7])
def test_topics_with_their_settings_in_parts(version: int) -> None:
    check(created(5_000), version, are_many=version >= 5)


def check(message: Message, version: int, *, are_many: bool) -> None:
    parts = [*encode_parts(message, version)]
    assert b"".join(parts) == encode(message, version)
    assert (len(parts) > 5) == are_many and max(map(len, parts)) < MOST_BYTES


@pytest.mark.parametrize("wrong", ["x" * 40_000, 5])
def test_what_cannot_be_written_is_named_as_in_the_whole_message(wrong: object) -> None:
    message = elected(3, 50_000)
    message.replica_election_results[1].partition_result[40_000].error_message = wrong  # type: ignore[assignment]
    with pytest.raises(EncodeError) as whole:
        encode(message, 2)
    parts = encode_parts(message, 2)
    with pytest.raises(EncodeError) as in_parts:
        deque(parts, 0)
    assert str(in_parts.value) == str(whole.value) and "[1].partition_result[40000].error_message" in str(whole.value)
    assert next(parts, None) is None, "there is nothing behind a fault"


@pytest.mark.parametrize("wrong", [None, 5, PartitionResult()])
def test_what_is_no_struct_of_its_kind_is_named(wrong: object) -> None:
    message = elected(3, 2)
    message.replica_election_results[1] = wrong  # type: ignore[call-overload]
    with pytest.raises(EncodeError) as whole:
        encode(message, 2)
    with pytest.raises(EncodeError) as in_parts:
        deque(encode_parts(message, 2), 0)
    assert str(in_parts.value) == str(whole.value)


def test_a_message_that_changes_between_two_parts_is_no_crash() -> None:
    message = elected(2, 100_000)
    parts = encode_parts(message, 2)
    next(parts)
    message.replica_election_results[0].partition_result.clear()
    message.replica_election_results.clear()
    with pytest.raises(EncodeError, match="changed while it was written"):
        deque(parts, 0)


def test_unread_parts_hold_no_memory() -> None:
    message = elected(2, 100_000)
    parts = encode_parts(message, 2)
    next(parts)
    del parts
    assert encode(message, 2)
