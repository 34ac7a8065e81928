"""The walk in which controllers come and go."""

from typing import Any, Final

from controller.kraft.recorded.story_wire import NAMES, Json
from recorder.walk import Walk

OFTEN: Final = {1: 0.09, 3: 0.14}  # By how many controllers there are.
STANDBYS: Final = 0.1  # So often a standby is asked.
IN_PARTS: Final = 0.3  # So often of these, what it answers itself in part or as a whole.
NOTHING: Final = {  # Requests that ask for nothing.
    **{"AlterPartition": "topics", "ElectLeaders": "topicPartitions", "AlterPartitionReassignments": "topics"},
    **{"AlterClientQuotas": "entries", "AlterUserScramCredentials": "deletions", "CreateAcls": "creations"},
    **{"CreateTopics": "topics", "CreatePartitions": "topics", "DeleteTopics": "topics", "AlterConfigs": "resources"},
}
OF_TOPICS: Final[dict[str, tuple[str, str, Json]]] = {  # A wrong and a right name; what is said of each.
    "CreateTopics": ("__cluster_metadata", "new", {"numPartitions": 1, "replicationFactor": 1}),
    "CreatePartitions": ("twice", "", {"count": 9}),
    "DeleteTopics": ("gone", "", {}),
}
CHANGES: Final[dict[str, list[str]]] = {
    "num.partitions": ["1", "2", "4"],
    "default.replication.factor": ["1", "2", "3"],
    "min.insync.replicas": ["1", "2", "3"],
    "unclean.leader.election.enable": ["true", "false"],
    "delete.topic.enable": ["true", "true", "false"],
    "auto.leader.rebalance.enable": ["true", "false"],
    "metadata.max.idle.interval.ms": ["0", "430000"],
}
AFTERWARDS: Final = [
    "beat",
    "unfence",
    "expire",
    "expire",
    "tick",
    "shutdown",
    "register",
    "alter",
    "describe",
    "elect",
]


class Turns(Walk):
    """A walk that stops, kills and starts controllers between requests."""

    def go_on(self) -> Any:
        standbys = [i for i in self.s.up if i != self.s.active.node_id]
        if standbys and self.chance(STANDBYS):
            self.s.asks = self.r.choice(standbys)
            self.ask_in_parts() if self.chance(IN_PARTS) else super().go_on()
            self.s.asks = None
            return True
        if not self.chance(OFTEN[len(self.s.machines)]):
            return super().go_on()
        self.turn()
        for _ in range(self.r.randint(0, 2)):
            getattr(self, "g_" + self.r.choice(AFTERWARDS))()
        return True

    def ask_in_parts(self) -> Any:
        """A request of which ControllerApis refuses a part, perhaps beside a part that it passes to its controller."""
        return self.r.choice([self._ask_for_nothing, self._create_acls, self._name_topics, self._alter_configs])()

    def _parts(self, wrong: list[Any], right: Any) -> list[Any]:
        parts = self.sample(wrong, self.r.randint(1, len(wrong))) + ([right] if self.chance(0.5) else [])
        self.r.shuffle(parts)
        return parts

    def _ask_for_nothing(self) -> Any:
        api = self.r.choice(sorted(NOTHING))
        is_timed = any(each.json_name == "timeoutMs" for each in NAMES[api].__fields__)
        return self.s.ask(api, {NOTHING[api]: [], **({"timeoutMs": 30000} if is_timed else {})}, note="nothing")

    def _create_acls(self) -> Any:
        wrong = [{**self.acl(), "resourceName": ""}, {**self.acl(), "resourceType": 4, "resourceName": "other"}]
        return self.s.ask("CreateAcls", {"creations": self._parts(wrong, self.acl())}, note="parts")

    def _name_topics(self) -> Any:
        api = self.r.choice(sorted(OF_TOPICS))
        wrong, right, rest = OF_TOPICS[api]
        names = self._parts(["twice", "twice", wrong], right or self.topic() or "t1")
        body = {"topics": [{"name": each, **rest} for each in names], "timeoutMs": 30000}
        return self.s.ask(api, body, note="parts")

    def _alter_configs(self) -> Any:
        """Kafka's standby does not answer an AlterConfigs that names a resource twice, beside one that is right."""
        api = self.r.choice(["AlterConfigs", "IncrementalAlterConfigs"])
        twice = [(4, "1"), (4, "1")] if api == "IncrementalAlterConfigs" else []
        named = self._parts([(99, "x"), (8, "x"), *twice], (2, self.topic() or "t1"))
        resources = [{"resourceType": kind, "resourceName": name} for kind, name in named]
        return self.s.ask(api, {"resources": resources}, note="parts")

    def turn(self) -> Any:
        """A restart, a snapshot or a failover."""
        story = self.s
        down = [i for i in story.machines if i not in story.up]
        if down and self.chance(0.7):
            return story.start(down[0], *self.new_life())
        kind = self.r.choice(["stop", "stop", "stop", "snapshot", "snapshot and stop", "resign"])
        if kind == "resign":
            return story.resign()
        node_id = story.active.node_id if self.chance(0.7) else self.r.choice(story.up)
        if "snapshot" in kind:
            story.snapshot(node_id)
        if "stop" in kind and (not down):
            story.stop(node_id, self.r.choice(["kill", "stop", "stop"]))
            if len(story.machines) == 1:
                leaves = story.may_leave and self.chance(0.2)
                story.start(node_id, *self.new_life(), leaves=leaves)
        return True

    def new_life(self) -> Any:
        """Dice and changed properties of a controller that starts."""
        names = self.sample(sorted(CHANGES), self.r.choice([0, 0, 0, 1, 2]))
        return self.r.getrandbits(31), {name: self.r.choice(CHANGES[name]) for name in names}
