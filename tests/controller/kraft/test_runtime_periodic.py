"""When periodic work is due: PeriodicTaskControlManager's rule of 4.x, and 3.9.1's, which waits for a reason."""

from typing import Any

import pytest

from controller.kraft.broker_clusters import BEGIN_MS, SESSION_MS, a_cluster, beat, look, put, records_of
from controller.kraft.broker_clusters import a_topic as put_topic
from controller.kraft.runtime import controller_of, setting
from kcore.controller.kraft import tasks as all_of_them
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.departures import FENCES_AT_INTERVALS
from kcore.controller.kraft.periodic import AFTER_FAULT_MS, AGAIN_MS, PeriodicTasks, Task
from kcore.controller.kraft.tasks import BALANCING, FENCING, SAMPLES, UNCLEAN, all_tasks
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kraft_configs import controller_config


def nothing(context: Any, now_ms: int) -> Decision | None:
    return None


@pytest.fixture
def context() -> Any:
    return controller_of().context


def test_a_task_is_due_its_period_after_activation_and_after_it_ran(context: Any) -> None:
    task = Task("a", 100, nothing)
    tasks = PeriodicTasks([task])
    assert tasks.next_due_ms is None and tasks.due(1 << 40) is None
    tasks.activate(context, 1000)
    assert tasks.due(1099) is None and tasks.due(1100) is task
    tasks.ran(task, context, 1150, written=0)
    assert tasks.next_due_ms == 1250


def test_tasks_run_in_the_order_in_which_they_fell_due(context: Any) -> None:
    """Also where much time passes at once; of those due at the same time the first of the table is first."""
    a, b, c = (Task(name, period, nothing) for name, period in (("a", 300), ("b", 100), ("c", 300)))
    tasks = PeriodicTasks([a, b, c])
    tasks.activate(context, 0)
    ran = []
    while (task := tasks.due(550)) is not None:
        ran.append(task.name)
        tasks.ran(task, context, 550, written=0)
    assert ran == ["b", "a", "c"]


def test_what_has_more_to_do_is_due_at_once_and_what_failed_in_five_minutes(context: Any) -> None:
    task = Task("a", 1000, nothing, continues_from=1)
    tasks = PeriodicTasks([task])
    tasks.activate(context, 0)
    tasks.ran(task, context, 5000, written=1)
    assert tasks.next_due_ms == 5000 + AGAIN_MS
    tasks.ran(task, context, 5010, written=0)
    assert tasks.next_due_ms == 6010
    tasks.ran(task, context, 6010, written=0, failed=True)
    assert tasks.next_due_ms == 6010 + AFTER_FAULT_MS


@pytest.mark.parametrize(("kafka_way", "late_ms"), [(frozenset(), 1), ({FENCES_AT_INTERVALS}, SESSION_MS // 8)])
def test_a_session_is_looked_at_when_it_ends(kafka_way: frozenset[str], late_ms: int) -> None:
    """In Kafka's way at the next of eight looks in a session timeout."""
    context = a_cluster((1, 2, 3), kafka_way=frozenset(kafka_way))
    [fencing] = [each for each in all_tasks(context.config) if each.name == FENCING]
    tasks = PeriodicTasks([fencing])
    tasks.activate(context, BEGIN_MS)
    looks = 0
    while (due_ms := tasks.next_due_ms) is not None and (decision := look(context, due_ms)) is None:
        beat(context, 1, due_ms)
        beat(context, 3, due_ms)
        tasks.ran(fencing, context, due_ms, written=0)
        looks += 1
    assert due_ms == BEGIN_MS + SESSION_MS + late_ms
    assert looks == SAMPLES and decision is not None and records_of(decision)[0].broker_id == 2


def test_a_task_of_3_9_waits_only_for_a_reason(context: Any) -> None:
    """Its period begins when the reason is seen, not at activation."""
    reasons: list[bool] = []
    task = Task("a", 100, nothing, is_wanted=lambda _: bool(reasons))
    tasks = PeriodicTasks([task])
    tasks.activate(context, 0)
    assert tasks.next_due_ms is None
    reasons.append(True)
    tasks.on_change(context, 70)
    tasks.on_change(context, 90)
    assert tasks.next_due_ms == 170
    reasons.clear()
    tasks.ran(task, context, 170, written=1)
    assert tasks.next_due_ms is None


@pytest.mark.parametrize("release", ["4.3.1", "4.1.2", "3.9.1"])
def test_what_a_controller_does_by_itself(release: str) -> None:
    """No balancing where it is switched off, no no-ops where their interval is 0."""
    config = controller_config(1, "a cluster", release=release)
    everything = {
        "expireDelegationTokens",
        "electPreferred",
        "electUnclean",
        "maybeFenceStaleBroker",
        "writeNoOpRecord",
    }
    assert {task.name for task in all_tasks(config)} == everything
    quiet = controller_config(
        *(1, "a cluster"), release=release, auto_leader_rebalance_enable=False, metadata_max_idle_interval_ms=0
    )
    assert {task.name for task in all_tasks(quiet)} == everything - {"electPreferred", "writeNoOpRecord"}


class _Watched:
    """Which scans over all partitions there were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scans = 0
        for name in ("leaderless_rows", "rows_not_led_by_first"):
            monkeypatch.setattr(all_of_them, name, self._counting(getattr(all_of_them, name)))

    def _counting(self, scan: Any) -> Any:
        def counted(table: Any) -> Any:
            self.scans += 1
            return scan(table)

        return counted


def test_3_9_1_looks_at_the_partitions_that_changed_and_at_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    context = a_cluster(release="3.9.1", level=21)
    tasks = PeriodicTasks(all_tasks(context.config))
    watched = _Watched(monkeypatch)
    tasks.activate(context, BEGIN_MS)
    assert watched.scans == 2
    topic = put_topic(context, 50, [1, 2])
    tasks.on_change(context, BEGIN_MS)
    assert not {UNCLEAN, BALANCING} & {*tasks._due_ms} and watched.scans == 2
    put(context, PartitionChangeRecord(topic_id=topic, partition_id=7, leader=2))
    tasks.on_change(context, BEGIN_MS)
    assert BALANCING in tasks._due_ms and UNCLEAN not in tasks._due_ms
    put(context, PartitionChangeRecord(topic_id=topic, partition_id=9, leader=-1))
    tasks.on_change(context, BEGIN_MS)
    assert UNCLEAN in tasks._due_ms and watched.scans == 2


def test_3_9_1_looks_at_all_partitions_once_records_were_taken_back() -> None:
    context = a_cluster(release="3.9.1", level=21)
    tasks = PeriodicTasks(all_tasks(context.config))
    context.image.keep_journal()
    tasks.activate(context, BEGIN_MS)
    topic = put_topic(context, 5, [1, 2])
    tasks.on_change(context, BEGIN_MS)
    begin = context.next_offset
    context.image.begin(begin)
    put(context, setting("a").record)
    tasks.on_change(context, BEGIN_MS)
    context.image.revert_to(begin)
    tasks.forget(context)
    put(context, PartitionChangeRecord(topic_id=topic, partition_id=3, leader=-1))  # At the same offset.
    tasks.on_change(context, BEGIN_MS)
    assert UNCLEAN in tasks._due_ms


def test_3_9_1_looks_for_stale_brokers_when_the_first_session_is_over() -> None:
    """A look in the session's last millisecond would find nothing, and be due again in the same millisecond."""
    context = a_cluster(release="3.9.1", level=21)
    tasks = PeriodicTasks([task for task in all_tasks(context.config) if task.name == FENCING])
    tasks.activate(context, BEGIN_MS)
    due_ms = tasks.next_due_ms
    assert due_ms == BEGIN_MS + SESSION_MS + 1
    assert look(context, due_ms) is not None
