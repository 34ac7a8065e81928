"""Java's hash codes, and the order of its HashMap."""

import pytest

from kcore import java_hash
from kcore.java_hash import (
    HASHED_AT_ONCE,
    hash_map_order,
    hash_map_ordering,
    java_split,
    string_hash,
    timeline_order,
    timeline_ordering,
)
from kcore.steps import finished


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("a", 97), ("polygenelubricants", 1 << 31), ("group", 98629247), ("😀", 1772899)]
)
def test_string_hash(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_names_are_listed_by_their_buckets() -> None:
    assert hash_map_order(["alice", "carol"]) == ["carol", "alice"]  # As a recorded controller answered.
    assert hash_map_order(["Aa", "BB"]) == ["Aa", "BB"]  # One hash code: in the order in which they are put.
    assert hash_map_order(["BB", "Aa"]) == ["BB", "Aa"]


def test_a_map_grows_beyond_three_quarters() -> None:
    numbers = range(100, 100 + 12)
    assert hash_map_order(numbers, lambda number: number) == sorted(numbers, key=lambda n: n & 15)
    more = range(100, 100 + 13)
    assert hash_map_order(more, lambda number: number) == sorted(more, key=lambda n: n & 31)
    assert hash_map_order([33, 1], lambda number: number, capacity=64) == [1, 33]


@pytest.mark.parametrize(
    ("count", "length", "parts"), [(10, 9, 1), (1000, 9, 1), (1001, 9, 4), (5000, 9, 7), (40, 8192, 2)]
)
def test_many_or_long_names_are_listed_in_parts(count: int, length: int, parts: int) -> None:
    names = [f"{number:05}".ljust(length, "x") for number in range(count)]
    assert HASHED_AT_ONCE == 1000
    assert len([*hash_map_ordering(names)]) == parts - 1
    assert finished(hash_map_ordering(names)) == hash_map_order(names)
    assert finished(timeline_ordering(names)) == timeline_order(names, string_hash)
    assert len([*timeline_ordering(names)]) == count // 1000
    assert finished(hash_map_ordering(names, capacity=4 * count)) == hash_map_order(names, capacity=4 * count)


def test_ids_are_listed_by_the_highest_bits_of_their_hash() -> None:
    assert timeline_order([1, 2, 3, 4]) == [2, 4, 1, 3]  # As recorded controllers went through their brokers.
    assert timeline_order([0, 1, 2, 3, 4], replaced=True) == [0, 2, 4, 1, 3]
    assert timeline_order([0, 1, 2, 3, 4]) == [2, 0, 4, 1, 3]
    assert timeline_order([]) == []


def test_names_are_listed_by_the_highest_bits_of_their_hash() -> None:
    """As org.apache.kafka.timeline.TimelineHashMap of 4.3.1 lists them."""
    names = ["retention.ms", "cleanup.policy", "min.insync.replicas", "segment.bytes", "flush.ms", "max.message.bytes"]
    assert timeline_order(names[:5], string_hash) == [names[4], names[1], names[3], names[2], names[0]]
    assert timeline_order(names, string_hash) == [names[1], names[4], names[3], names[0], names[5], names[2]]
    assert timeline_order([], string_hash) == []


def test_java_splits_without_the_empty_parts_at_the_end() -> None:
    for text, parts in (("", [""]), (",", []), ("a,,", ["a"]), (",a", ["", "a"]), ("a,,b", ["a", "", "b"])):
        assert java_split(text, ",") == parts


@pytest.mark.parametrize("letters", ["k", "kZ~9", "\u00fcg\U0001f600", "\uffff\ud800"])
@pytest.mark.parametrize("length", [255, 256, 257, 1023, 1024, 1025, 5000, 32_767])
def test_the_hash_of_a_long_text_is_javas(letters: str, length: int) -> None:
    text = (letters * length)[:length]
    units = memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]
    assert string_hash(text) == sum(unit * pow(31, at, 1 << 32) for at, unit in enumerate(reversed(units))) % (1 << 32)


def test_a_long_text_is_not_hashed_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of a client may have a hundred megabytes of keys."""
    calls = []
    monkeypatch.setattr(java_hash, "_horner", lambda units: calls.append(len(units)) or 0)
    string_hash("k" * 32_767)
    assert not calls
    string_hash("k" * 20)
    assert calls == [20]
