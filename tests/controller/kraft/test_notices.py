"""What the controller's log says of decisions."""

from controller.kraft.broker_clusters import a_cluster
from controller.kraft.test_topics_bulk import a_topic, create, grow, written
from kcore.controller.kraft.notices import lines_of


def test_topics_that_are_created_and_extended() -> None:
    context = a_cluster()
    decision = create(context, a_topic("a", 2), a_topic("b", 3))
    assert [*lines_of(context.image, decision)] == ["topics a, b created with 5 partitions"]
    written(context, decision)
    assert [*lines_of(context.image, grow(context, "b", 7))] == ["topic b extended by 4 partitions"]
