"""Arrays of int32s stay packed in a decoded message until their list is read; only the time differs."""

import copy
import gc
import pickle
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kcore
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionState as State
from kcore.schema.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from kcore.schema.update_metadata import UpdateMetadataPartitionState
from kcore.types import Uuid

INT32 = st.integers(-(2**31), 2**31 - 1)
SLAB = 1 << 21


def request(states: list[State]) -> LeaderAndIsrRequest:
    topics = [LeaderAndIsrTopicState(topic_name="orders", partition_states=states)]
    return LeaderAndIsrRequest(controller_id=1, controller_epoch=2, topic_states=topics, live_leaders=[])


def decoded(states: list[State], version: int = 7) -> LeaderAndIsrRequest:
    return kcore.decode(LeaderAndIsrRequest, version, kcore.encode(request(states), version))


def state(**fields: Any) -> State:
    return decoded([State(**fields)]).topic_states[0].partition_states[0]


@settings(deadline=None)
@given(st.lists(INT32, max_size=70), st.lists(INT32, max_size=9))
def test_a_list_has_the_numbers_that_were_encoded(isr: list[int], replicas: list[int]) -> None:
    made = state(isr=isr, replicas=replicas)
    assert (made.isr, made.replicas, made.adding_replicas) == (isr, replicas, [])
    assert {type(made.isr), type(made.adding_replicas)} == {list}


def test_a_list_is_made_once_and_is_the_messages_own() -> None:
    one, other = decoded([State(isr=[1, 2]), State(isr=[1, 2])]).topic_states[0].partition_states
    assert one.isr is one.isr
    assert one.adding_replicas is one.adding_replicas
    one.isr.append(3)
    one.adding_replicas.append(4)
    assert (one.isr, one.adding_replicas) == ([1, 2, 3], [4])
    assert (other.isr, other.adding_replicas) == ([1, 2], [])


@pytest.mark.parametrize("version", [2, 7])
def test_what_is_packed_is_written_as_a_list_is(version: int) -> None:
    states = [State(isr=[1, -1, 2**31 - 1], replicas=[5]), State(isr=[], replicas=[6] * 300)]
    data = kcore.encode(request(states), version)
    message = kcore.decode(LeaderAndIsrRequest, version, data)
    assert kcore.encode(message, version) == data
    assert message == request(states)
    assert kcore.encode(message, version) == data
    message.topic_states[0].partition_states[1].isr.append(9)
    states[1].isr.append(9)
    assert kcore.encode(message, version) == kcore.encode(request(states), version)


def test_copies_pickles_and_texts() -> None:
    fields: dict[str, Any] = {"isr": [1, 2], "replicas": [2, 1]}
    for same in (
        copy.copy(state(**fields)),
        copy.deepcopy(state(**fields)),
        pickle.loads(pickle.dumps(state(**fields))),
    ):
        assert same == state(**fields) == State(**fields)
        assert same.isr == [1, 2]
    assert repr(state(**fields)) == repr(State(**fields))
    shallow, whole = copy.copy(made := state(**fields)), copy.deepcopy(made)
    assert shallow.isr is made.isr
    assert whole.isr is not made.isr


def test_an_error_calls_it_a_list() -> None:
    partition = AlterPartitionRequestPartitionData(new_isr=[1])
    asked = AlterPartitionRequest(
        topics=[AlterPartitionRequestTopicData(topic_id=Uuid(b"t" * 16), partitions=[partition])]
    )
    message = kcore.decode(AlterPartitionRequest, 2, kcore.encode(asked, 2))
    with pytest.raises(kcore.UnsupportedVersionError, match=r"new_isr: set, but the version lacks the field: list$"):
        kcore.encode(message, 3)
    asked.topics[0].partitions[0].new_isr.clear()
    assert kcore.encode(kcore.decode(AlterPartitionRequest, 2, kcore.encode(asked, 2)), 3) == kcore.encode(asked, 3)


def test_an_attribute_is_a_slots_own_in_all_else() -> None:
    made = state(isr=[1])
    made.isr = [2]
    assert made.isr == [2]
    del made.isr
    with pytest.raises(AttributeError, match="isr"):
        made.isr  # noqa: B018
    with pytest.raises(AttributeError, match="isr"):
        State.__new__(State).isr  # noqa: B018
    with pytest.raises(TypeError, match="isr"):
        State.isr.__get__(UpdateMetadataPartitionState(), None)  # type: ignore[attr-defined]

    class Own(State):
        """A user's own subclass, with attributes."""

        __slots__ = ("__dict__",)

    own = Own(isr=[4])
    own.note = "kept"  # type: ignore[attr-defined]
    assert own.isr == [4]


def test_the_collector_may_look_at_a_packed_list() -> None:
    made = state(isr=[1, 2])
    assert any(type(found).__name__ == "PackedInts" for found in gc.get_referents(made))
    assert made.isr == [1, 2]


def big(partitions: int) -> bytes:
    states = [State(partition_index=i, isr=[i, 2, 3], replicas=list(range(i % 90))) for i in range(partitions)]
    return bytes(kcore.encode(request(states), 7))


def test_partitions_that_outlive_a_big_message_are_whole() -> None:
    """They lie in slabs, whose other blocks are freed and reused meanwhile."""
    dice, data, kept = random.Random(5), big(20_000), dict[int, State]()
    for _ in range(6):
        states = kcore.decode(LeaderAndIsrRequest, 7, data).topic_states[0].partition_states
        assert [each.partition_index for each in states] == list(range(20_000))
        dice.shuffle(states)
        for each in states[:50]:
            kept[each.partition_index] = each
        del states[dice.randrange(20_000) :]
        del states, each
        for i, each in kept.items():
            assert (each.isr, each.replicas, each.removing_replicas) == ([i, 2, 3], list(range(i % 90)), [])


def test_the_memory_of_a_big_message_is_given_back() -> None:
    data = big(60_000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        message = kcore.decode(LeaderAndIsrRequest, 7, data)
        states = message.topic_states[0].partition_states
        assert tracemalloc.get_traced_memory()[0] - before > len(states) * 150
        few = states[::10_000]
        del message, states
        assert tracemalloc.get_traced_memory()[0] - before < (2 * len(few) + 2) * SLAB
        del few
        assert tracemalloc.get_traced_memory()[0] - before < 2 * SLAB
    finally:
        tracemalloc.stop()
