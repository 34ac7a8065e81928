"""Names that collide as metrics."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from kcore.metadata.topic_names import Collisions

NAMES = st.text("ab._-", max_size=5)


@given(there=st.lists(NAMES, unique=True), new=st.lists(NAMES, unique=True))
def test_each_is_compared_with_all_that_came_before(there: list[str], new: list[str]) -> None:
    """A name without a period or underscore never collides."""
    collisions = Collisions(there)
    for number, name in enumerate(new):
        before = [*there, *new[:number]]
        same = [each for each in before if each.replace(".", "_") == name.replace(".", "_")]
        assert [*collisions.of(name)] == (same if {*"._"} & {*name} else [])
        collisions.add(name)


def test_topics_are_looked_through_once_and_only_where_a_name_may_collide() -> None:
    looks = 0

    class Names:
        def __iter__(self) -> Iterator[str]:
            nonlocal looks
            looks += 1
            return iter(["a.b", "c"])

    collisions = Collisions(Names())
    assert [*collisions.of("c")] == [] and looks == 0
    for _ in range(3):
        assert [*collisions.of("a_b")] == ["a.b"]
    assert looks == 1
