"""Placement against its slow twins, its guarantees, and unsatisfiable requests."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from kcore.errors import PlacementError
from kcore.replication.java_random import JavaRandom, hash_map_order, string_hash
from kcore.replication.placement import place
from reference import placement as twin
from seeds import seeds

RACKS = ["b", "a", "c", None]


def hashed(racks: list[str | None]) -> list[str | None]:
    names = list(dict.fromkeys(racks))
    return [names[row] for row in hash_map_order(0 if name is None else string_hash(name) for name in names)]


def expected_striped(
    brokers: list[int], racks: list[str | None], fenced: list[bool], partitions: int, factor: int, seed: int
) -> list[list[int]]:
    return twin.striped(brokers, racks, fenced, hashed(racks), partitions, factor, JavaRandom(seed))


def check_kafka_39(brokers: list[int], racks: list[str] | None, factor: int, start: int, first: int) -> None:
    rack_of = dict(zip(brokers, racks, strict=True)) if racks else {}
    order = twin.alternate_racks(rack_of) if racks else brokers
    partitions = 3 * len(brokers) + 1
    expected = twin.kafka_39(order, rack_of, partitions, factor, start, start, first)
    placed = place("kafka-3.9", brokers, partitions, factor, racks=racks, start=start, start_partition=first)
    assert placed.tolist() == expected


def check_striped(brokers: list[int], racks: list[str | None], fenced: list[bool], factor: int, seed: int) -> None:
    expected = expected_striped(brokers, racks, fenced, 20, factor, seed)
    placed = place("striped", brokers, 20, factor, racks=racks, fenced=fenced, seed=seed)
    assert placed.tolist() == expected


@pytest.mark.covers("article placement 1", "article placement 2", "article placement 3")
@pytest.mark.parametrize("brokers", range(1, 6))
def test_small_clusters_without_racks(brokers: int) -> None:
    ids = [7, 3, 9, 0, 2**31 - 1][:brokers]
    for factor in range(1, brokers + 1):
        assert place("article", ids, 13, factor).tolist() == twin.article(ids, 13, factor)
        for start, first in product(range(brokers + 1), range(brokers + 2)):
            check_kafka_39(ids, None, factor, start, first)


@pytest.mark.parametrize("brokers", range(1, 6))
def test_small_clusters_with_every_choice_of_racks(brokers: int) -> None:
    ids = [7, 3, 9, 0, 5][:brokers]
    for racks in product("bac", repeat=brokers):
        for factor in range(1, brokers + 1):
            check_kafka_39(ids, list(racks), factor, start=brokers - 1, first=2)


@pytest.mark.parametrize("brokers", range(1, 5))
def test_small_clusters_striped(brokers: int) -> None:
    ids = [7, 3, 9, 0][:brokers]
    for racks, fenced in product(product(RACKS[1:], repeat=brokers), product([False, True], repeat=brokers)):
        if not all(fenced):
            for factor in range(1, brokers + 1):
                check_striped(ids, list(racks), list(fenced), factor, seed=factor)


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_larger_clusters(seed: int) -> None:
    random = np.random.default_rng(seed)
    brokers = int(random.integers(5, 80))
    ids = random.choice(100_000, brokers, replace=False).tolist()
    racks = [f"rack{rack}" for rack in random.integers(0, random.integers(1, 12), brokers)]
    factor = int(random.integers(1, min(brokers, 9)))
    check_kafka_39(ids, None, factor, int(random.integers(0, 200)), int(random.integers(0, 200)))
    check_kafka_39(ids, racks, factor, int(random.integers(0, 200)), int(random.integers(0, 200)))
    fenced = (random.random(brokers) < random.choice([0, 0.3, 0.9])).tolist()
    fenced[0] = False
    some_racks = [rack if random.random() < 0.9 else None for rack in racks]
    check_striped(ids, some_racks, fenced, factor, int(random.integers(-(2**62), 2**62)))


def test_the_article_goes_on_where_a_topic_grows() -> None:
    whole = place("article", [4, 5, 6], 10, 2, start=1)
    assert whole[0].tolist() == [5, 6]
    assert place("article", [4, 5, 6], 7, 2, start=1, start_partition=3).tolist() == whole[3:].tolist()


def test_kafka_39_draws_start_and_shift_from_the_seed() -> None:
    random = JavaRandom(5)
    start, shift = random.next_int(7), random.next_int(7)
    expected = twin.kafka_39(list(range(7)), {}, 30, 3, start, shift, 0)
    assert start != shift
    assert place("kafka-3.9", range(7), 30, 3, seed=5).tolist() == expected


def test_one_live_broker_does_not_loop() -> None:
    """KAFKA-12897: with one unfenced broker and two partitions or more, Kafka searched for ever."""
    assert place("striped", [1], 5, 1).tolist() == [[1]] * 5
    placed = place("striped", [1, 2, 3], 50, 3, fenced=[True, False, True])
    assert set(placed[:, 0]) == {2}


@pytest.mark.parametrize("kind", ["article", "kafka-3.9", "striped"])
def test_every_placement_has_distinct_brokers_of_the_cluster(kind: str) -> None:
    placed = place(kind, range(100, 130), 1_000, 5)
    assert (
        placed.dtype == np.int32 and placed.shape == (1_000, 5) and placed.flags.c_contiguous and placed.flags.writeable
    )
    assert all(len(set(row)) == 5 for row in placed.tolist())
    assert np.isin(placed, np.arange(100, 130)).all()
    assert np.bincount(placed[:, 0])[100:].max() - np.bincount(placed[:, 0])[100:].min() <= 1


def test_striped_without_partitions() -> None:
    assert place("striped", [1, 2], 0, 2).shape == (0, 2)


@pytest.mark.parametrize("kind", ["article", "kafka-3.9", "striped"])
@pytest.mark.parametrize(
    ("request_", "options", "message"),
    [
        (([1, 2], -1, 1), {}, "partitions"),
        (([1, 2], 2**31, 1), {}, "partitions"),
        (([1, 2], 1, 0), {}, "replication factor"),
        (([1, 2], 1, -1), {}, "replication factor"),
        (([1, 2], 1, 3), {}, "factor 3 is larger than the 2 available"),
        (([1, 1], 1, 1), {}, "twice"),
        (([1, -2], 1, 1), {}, "broker ids must be"),
        (([1, 2**31], 1, 1), {}, "broker ids must be"),
        (([1.5], 1, 1), {}, "sequence of ids"),
        ((3, 1, 1), {}, "sequence of ids"),
        (([1, 2], 1, 1), {"racks": ["a"]}, "1 racks for 2 brokers"),
        (([1, 2], 1, 1), {"fenced": [True]}, "fenced"),
        (([1, 2], 1, 1), {"start": -1}, "start must be"),
        (([1, 2], 1, 1), {"start_partition": -1}, "start_partition must be"),
        (([], 1, 1), {}, "brokers"),
    ],
)
def test_bad_requests(kind: str, request_: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        place(kind, *request_, **options)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("kraft", {}, "one of article, kafka-3.9, striped"),
        ("article", {"racks": ["a", "b"]}, "neither a seed nor racks"),
        ("article", {"seed": 1}, "neither a seed nor racks"),
        ("article", {"fenced": [True, False]}, "not support fenced brokers"),
        ("kafka-3.9", {"fenced": [True, False]}, "not support fenced brokers"),
        ("kafka-3.9", {"racks": ["a", None]}, "rack of every broker"),
        ("striped", {"start": 0}, "takes a seed"),
        ("striped", {"fenced": [True, True]}, "fenced"),
    ],
)
def test_options_that_a_kind_does_not_have(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        place(kind, [1, 2], 1, 1, **options)


@pytest.mark.parametrize("kind", ["article", "kafka-3.9"])
def test_no_partitions(kind: str) -> None:
    with pytest.raises(PlacementError, match="partitions must be larger than 0"):
        place(kind, [1, 2], 0, 1)
