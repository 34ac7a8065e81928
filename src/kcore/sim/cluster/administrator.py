"""The administrator of a simulated cluster, whose random requests change topics, replicas, leaders and settings."""

from collections.abc import Callable
from typing import Any, Final

from kcore.constants import MIN_ISR
from kcore.schema import partitions, topics
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.configs import (
    ConfigResourceType,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    OpType,
)
from kcore.schema.structure import Message
from kcore.sim.cluster.cluster_facts import ClusterFacts
from kcore.sim.cluster.exchanges import Exchanges
from kcore.sim.cluster.options import ClusterOptions
from kcore.sim.cluster.schedule import Schedule
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.story import short

UNCLEAN: Final = "unclean.leader.election.enable"
MOST_TOPICS: Final = 6
MOST_PARTITIONS: Final = 5  # Each topic grows to this number.
MOST_REPLICAS: Final = 4  # Each partition has at most so many.
TIMEOUT_MS: Final = 3_000
WEIGHTS: Final = {  # How often each action is chosen, beside the others.
    **{"create": 8, "delete": 2, "grow": 2, "reassign": 6, "cancel": 1, "elect preferred": 3, "elect unclean": 1},
    **{"min.insync.replicas": 2, "unclean election": 1, "unregister": 0.3},
}
ELSEWHERE: Final = 0.1  # The share of requests to a controller that may not be active.


class Administrator:
    """Sends one random request at a time."""

    def __init__(
        self,
        world: RunningWorld,
        options: ClusterOptions,
        facts: ClusterFacts,
        exchanges: Exchanges,
        active: Callable[[], Machine | None],
        schedule: Schedule,
    ) -> None:
        """`active()`: the machine of an active controller; `schedule` performs each request."""
        self._world, self._options, self._facts, self._exchanges = world, options, facts, exchanges
        self._active, self._schedule = active, schedule
        self._brokers = range(options.controllers, options.controllers + options.brokers)
        self._actions: dict[str, Callable[[], Message | None]] = {
            "create": self._create,
            "delete": self._delete,
            "grow": self._grow,
            "reassign": self._reassign,
            "cancel": self._cancel,
            "elect preferred": self._elect_preferred,
            "elect unclean": self._elect_unclean,
            "min.insync.replicas": self._min_isr,
            "unclean election": self._unclean,
            "unregister": self._unregister,
        }

    def act(self) -> None:
        """Chooses an action, and sends its request."""
        world = self._world
        if world.is_healing:
            return
        [name] = world.random.choices([*WEIGHTS], [*WEIGHTS.values()])
        request = self._actions[name]()
        controllers = world.machines[: self._options.controllers]
        machine = self._active() if world.dice() >= ELSEWHERE else world.random.choice(controllers)
        if request is None or machine is None:
            return
        text = lambda: f"administrator: {name}: {short(request)}"  # noqa: E731
        self._schedule.take(world, text, lambda: self._request(name, text, machine, request))

    def _request(self, name: str, text: Callable[[], str], machine: Machine, request: Message) -> None:
        self._world.seen[f"administrator: {name}"] += 1
        self._world.notes(text)
        self._exchanges.send(None, machine, request, TIMEOUT_MS, self._answered)

    def _answered(self, response: Any) -> None:
        self._world.seen[f"answer: {'none' if response is None else type(response).__name__}"] += 1

    # Topics.

    def _create(self) -> Message | None:
        facts, random = self._facts, self._world.random
        names = [name for name in (f"t{k}" for k in range(MOST_TOPICS)) if name not in facts.cluster.names.values()]
        if not names:
            return None
        configs = []
        if random.random() < 0.4:
            configs.append(topics.CreatableTopicConfig(name=MIN_ISR, value=str(random.randint(1, 3))))
        if self._options.unclean and random.random() < 0.4:
            configs.append(topics.CreatableTopicConfig(name=UNCLEAN, value="true"))
        topic = topics.CreatableTopic(
            name=random.choice(names),
            num_partitions=random.randint(1, MOST_PARTITIONS - 1),
            replication_factor=random.randint(1, min(MOST_REPLICAS, len(self._brokers))),
            assignments=[],
            configs=configs,
        )
        return topics.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=random.random() < 0.05)

    def _topic(self) -> str | None:
        names = sorted(self._facts.cluster.names.values())
        return self._world.random.choice(names) if names else None

    def _partition(self) -> tuple[str, int] | None:
        """A random partition: its topic's name and its index."""
        cluster = self._facts.cluster
        keys = sorted((cluster.names[topic_id], index) for topic_id, index in cluster.partitions)
        return self._world.random.choice(keys) if keys else None

    def _delete(self) -> Message | None:
        name = self._topic()
        if name is None:
            return None
        return topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)

    def _grow(self) -> Message | None:
        name = self._topic()
        if name is None:
            return None
        topic = partitions.CreatePartitionsTopic(name=name, count=MOST_PARTITIONS)
        return partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

    # Replicas and leaders.

    def _reassignment(self, replicas: list[int] | None) -> Message | None:
        found = self._partition()
        if found is None:
            return None
        partition = partitions.ReassignablePartition(partition_index=found[1], replicas=replicas)
        topic = partitions.ReassignableTopic(name=found[0], partitions=[partition])
        return partitions.AlterPartitionReassignmentsRequest(topics=[topic])

    def _reassign(self) -> Message | None:
        random = self._world.random
        count = random.randint(1, min(MOST_REPLICAS, len(self._brokers)))
        return self._reassignment(random.sample(self._brokers, count))

    def _cancel(self) -> Message | None:
        return self._reassignment(None)

    def _election(self, kind: partitions.ElectionType) -> Message | None:
        found = self._partition()
        if found is None:
            return None
        asked = partitions.TopicPartitions(topic=found[0], partitions=[found[1]])
        return partitions.ElectLeadersRequest(election_type=kind, topic_partitions=[asked])

    def _elect_preferred(self) -> Message | None:
        return self._election(partitions.ElectionType.PREFERRED)

    def _elect_unclean(self) -> Message | None:
        """An unclean election that an administrator requests needs no permission by a setting (KIP-460)."""
        if not self._options.unclean:
            return None
        request = self._election(partitions.ElectionType.UNCLEAN)
        if isinstance(request, partitions.ElectLeadersRequest) and request.topic_partitions:
            self._facts.on_unclean_requested(request.topic_partitions[0].topic, self._world.now_us)
        return request

    # Settings and brokers.

    def _setting(self, name: str, value: str) -> Message | None:
        topic = self._topic()
        if topic is None:
            return None
        config = IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=OpType.SET, value=value)
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=[config]
        )
        return IncrementalAlterConfigsRequest(resources=[resource])

    def _min_isr(self) -> Message | None:
        return self._setting(MIN_ISR, str(self._world.random.randint(1, 3)))

    def _unclean(self) -> Message | None:
        if not self._options.unclean:
            return None
        return self._setting(UNCLEAN, self._world.random.choice(("true", "false")))

    def _unregister(self) -> Message | None:
        return UnregisterBrokerRequest(broker_id=self._world.random.choice(self._brokers))
