"""The parts of Java's library that placement uses, against a JVM's output."""

import pytest

from kcore.replication.java_random import JavaRandom, hash_map_order, string_hash, utf16_order


@pytest.mark.parametrize(
    ("seed", "bound", "drawn"),
    [
        (42, 100, [30, 63, 48, 84, 70, 25]),
        (1 << 60, 16, [11, 13, 3, 9, 10, 4]),
        (-7, 2**30 + 1, [577934662, 314447087, 677675436, 184135245, 425474944, 988357177]),  # Half is drawn again.
    ],
)
def test_next_int(seed: int, bound: int, drawn: list[int]) -> None:
    random = JavaRandom(seed)
    assert [random.next_int(bound) for _ in drawn] == drawn


def test_next_of_32_bits_is_signed() -> None:
    random = JavaRandom(42)
    assert [random.next(32) for _ in range(3)] == [-1170105035, 234785527, -1360544799]


@pytest.mark.parametrize("bound", [0, -1, 2**31])
def test_a_bound_that_java_refuses(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        JavaRandom(0).next_int(bound)


def test_shuffle() -> None:
    items = list(range(10))
    JavaRandom(3).shuffle(items)
    assert items == [6, 5, 1, 3, 8, 7, 9, 0, 2, 4]


def test_strings() -> None:
    texts = ["rack2", "", "a", "\U0001f600", "eu-west-1a", "AaAa", "BBBB", "zone\u00e9"]
    hashes = [108269627, 0, 97, 1772899, 2965256977, 2031744, 2031744, 116085437]
    assert [string_hash(text) for text in texts] == hashes
    assert sorted(["\ufffd", "\U0001f600", "z"], key=utf16_order) == ["z", "\U0001f600", "\ufffd"]


def test_order_of_a_small_map() -> None:
    texts = ["rack2", "", "a", "\U0001f600", "eu-west-1a", "eu-west-1b", "AaAa", "BBBB", "AaBB", "zone\u00e9"]
    assert hash_map_order([0, *map(string_hash, texts)]) == [0, 2, 3, 10, 4, 6, 1, 5, 7, 8, 9]


def test_order_of_a_map_that_grew() -> None:
    order = hash_map_order(string_hash(f"rack{i}") for i in range(60))
    assert order[:20] == [49, 46, 45, 48, 47, 42, 41, 44, 43, 40, 17, 16, 19, 18, 7, 13, 57, 8, 12, 56]
    assert order[-4:] == [31, 30, 33, 32]


def test_a_long_chain_grows_the_map_early() -> None:
    nine = ["AaAaAaAa", "AaAaAaBB", "AaAaBBAa", "AaAaBBBB", "AaBBAaAa", "AaBBAaBB", "AaBBBBAa", "AaBBBBBB", "BBAaAaAa"]
    order = hash_map_order(string_hash(text) for text in [*nine, "x", "y", "p", "q", "rr", "sss"])
    assert order == [13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 9, 10]
