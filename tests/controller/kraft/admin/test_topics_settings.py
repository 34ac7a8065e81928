"""The topics' settings that elections need are kept up to date as settings change."""

import pytest

from controller.kraft.broker_clusters import a_cluster
from controller.kraft.broker_clusters import put as apply
from controller.kraft.partitions.test_topics_bulk import a_topic, create, written
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.metadata_records_topics import RemoveTopicRecord

TOPIC, BROKER = 2, 4
MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


def a_set(context: ControllerContext, kind: int, resource: str, name: str, value: str | None) -> None:
    """A ConfigRecord takes effect."""
    apply(context, ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))


def min_isr(context: ControllerContext, topic: str) -> int:
    """The min.insync.replicas of a topic, as elections see it."""
    values, by = context.kraft_settings().min_isr
    return int(values[context.image.topics.row(topic) if by else 0])


def is_unclean(context: ControllerContext, topic: str) -> bool:
    """The topic's unclean.leader.election.enable, as elections see it."""
    values, by = context.kraft_settings().unclean
    return bool(values[context.image.topics.row(topic) if by else 0])


def with_topics(*names: str, **settings: object) -> ControllerContext:
    """Topics of one partition."""
    context = a_cluster(**settings)
    return written(context, create(context, *(a_topic(name) for name in names)))


def test_a_topics_own_setting_counts_before_the_nodes_and_all_nodes_and_server_properties() -> None:
    context = with_topics("a", "b", static_configs={MIN_ISR: "2"})
    assert min_isr(context, "a") == 2
    a_set(context, BROKER, "", MIN_ISR, "3")
    assert min_isr(context, "a") == 3
    a_set(context, BROKER, "3000", MIN_ISR, "4")
    assert min_isr(context, "a") == 4
    a_set(context, BROKER, "1", MIN_ISR, "9")  # The setting of another node.
    a_set(context, TOPIC, "a", MIN_ISR, "5")
    assert [min_isr(context, each) for each in "ab"] == [5, 4]
    for kind, name in ((TOPIC, "a"), (BROKER, "3000"), (BROKER, "")):
        a_set(context, kind, name, MIN_ISR, None)
    assert min_isr(context, "a") == 2


def test_settings_are_the_same_object_until_what_elections_depend_on_changes() -> None:
    context = with_topics("a", "b")
    a_set(context, TOPIC, "a", UNCLEAN, "true")
    settings = context.kraft_settings()
    a_set(context, TOPIC, "b", "retention.ms", "1")
    assert context.kraft_settings() is settings
    a_set(context, TOPIC, "b", UNCLEAN, "true")
    assert is_unclean(context, "b")


def test_a_topic_that_takes_the_row_of_a_deleted_one_has_the_defaults() -> None:
    context = with_topics("a", "b")
    a_set(context, TOPIC, "a", MIN_ISR, "2")
    assert min_isr(context, "a") == 2
    apply(context, RemoveTopicRecord(topic_id=context.image.topics.ids[context.image.topics.row("a")]))
    written(context, create(context, a_topic("c")))
    assert [min_isr(context, each) for each in "bc"] == [1, 1]


def test_topics_that_are_made_again_in_each_others_rows_keep_their_own_settings() -> None:
    context = with_topics("a", "b")
    a_set(context, TOPIC, "a", MIN_ISR, "2")
    a_set(context, TOPIC, "b", MIN_ISR, "3")
    assert [min_isr(context, each) for each in "ab"] == [2, 3]
    for name in "ab":
        apply(context, RemoveTopicRecord(topic_id=context.image.topics.ids[context.image.topics.row(name)]))
    topics = a_topic("a", min_insync_replicas="2"), a_topic("b", min_insync_replicas="3")
    written(context, create(context, *topics))
    assert [min_isr(context, each) for each in "ab"] == [2, 3]


def test_what_is_taken_back_counts_no_more() -> None:
    context = with_topics("a")
    context.image.keep_journal()
    begin = context.next_offset
    context.image.begin(begin)
    a_set(context, TOPIC, "a", MIN_ISR, "2")
    assert min_isr(context, "a") == 2
    context.image.revert_to(begin)
    assert min_isr(context, "a") == 1


def test_more_changes_than_are_remembered_are_found_by_looking_at_all() -> None:
    context = with_topics("a", "b")
    assert min_isr(context, "b") == 1
    for turn in range(1100):
        a_set(context, TOPIC, "a", MIN_ISR, str(1 + turn % 2))
    a_set(context, TOPIC, "b", MIN_ISR, "3")
    assert [min_isr(context, each) for each in "ab"] == [2, 3]


@pytest.mark.parametrize("value", ["often", "", "9" * 30, "-7", "1.5"])
def test_what_is_no_number_for_a_broker_brings_nothing_down(value: str) -> None:
    """Kafka's controller takes any text as a broker's setting, and falls over it at the next election."""
    context = with_topics("a")
    a_set(context, BROKER, "", MIN_ISR, value)
    assert 0 <= min_isr(context, "a") < 2**31
    a_set(context, BROKER, "", UNCLEAN, value)
    assert not is_unclean(context, "a")


def test_a_setting_that_was_there_before_its_topic_counts() -> None:
    context = with_topics("a", "c")
    apply(context, RemoveTopicRecord(topic_id=context.image.topics.ids[context.image.topics.row("c")]))
    a_set(context, TOPIC, "b", MIN_ISR, "3")
    assert min_isr(context, "a") == 1
    written(context, create(context, a_topic("b")))  # In the row that c has left.
    assert [min_isr(context, each) for each in "ab"] == [1, 3]
