"""Topics are created, grow and are deleted, most of the time rightly."""

from typing import Any, Final

from recorder.walk_brokers import Brokers
from recorder.walk_known import BAD_NAMES, UNKNOWN_UUID

BAD_TOPIC_KINDS: Final = [
    *("name", "exists", "rf0", "rf", "rf many", "p0", "pneg", "both", "dup", "unknown", "gap", "uneven"),
    *("collide", "config", "fenced", "empty", "dup index", "negative", "huge"),
]
CREATE_PARTITIONS_KINDS: Final = [
    *("auto", "auto", "explicit", "explicit", "fewer", "same", "unknown", "wrong count", "dup"),
    *("unknown broker", "twice", "wrong rf", "fenced"),
]
DELETE_TOPICS_KINDS: Final = [
    *("name", "id", "id", "unknown name", "unknown id", "gone id", "both", "neither", "twice", "mixed", "old"),
]


class Topics(Brokers):
    """Requests about topics."""

    def new_name(self) -> Any:
        self.names += 1
        return self.r.choice(["t{}", "t{}", "orders.{}", "logs_{}"]).format(self.names)

    def assignment(self, partitions: Any, rf: Any) -> Any:
        ids = self.all if self.chance(0.4) else [b.id for b in self.live] or self.all
        rf = min(rf, len(ids))
        return [{"partitionIndex": i, "brokerIds": self.sample(ids, rf)} for i in range(partitions)] if rf else []

    def topic_configs(self) -> Any:
        pool = [
            ("min.insync.replicas", "2"),
            ("min.insync.replicas", "1"),
            ("unclean.leader.election.enable", "true"),
            ("retention.ms", "1000"),
            ("cleanup.policy", "compact"),
            ("compression.type", "gzip"),
        ]
        bad = [
            ("no.such.config", "1"),
            ("retention.ms", "soon"),
            ("min.insync.replicas", "0"),
            ("cleanup.policy", "burn"),
            ("segment.bytes", None),
        ]
        out = []
        if self.chance(0.45):
            out = self.sample(pool, self.r.randint(1, 2))
            if self.chance(0.15):
                out.append(self.r.choice(bad))
        if self.s.theme == "elr" and self.chance(0.6):
            out = [("min.insync.replicas", self.r.choice(["2", "2", "3"]))]
        seen = {}
        for name, value in out:
            seen[name] = value
        return [{"name": n, "value": v} for n, v in seen.items()]

    def good_topic(self, explicit: Any = None) -> Any:
        name, rf, partitions = self.new_name(), self.r.choice([1, 2, 3, 3, 3, 4]), self.r.randint(1, 4)
        out = {
            "name": name,
            "numPartitions": partitions,
            "replicationFactor": min(rf, max(1, len(self.live))),
            "configs": self.topic_configs(),
        }
        if self.chance(0.6) if explicit is None else explicit:
            out.update(numPartitions=-1, replicationFactor=-1, assignments=self.assignment(partitions, rf))
        return out

    def bad_topic(self) -> Any:
        kind = self.r.choice(BAD_TOPIC_KINDS)
        out = self.good_topic(explicit=False)
        ids = self.all or [1]
        if kind == "name":
            out["name"] = self.r.choice(BAD_NAMES)
        elif kind == "huge":
            out.update(numPartitions=10_000 + self.r.randint(0, 1), replicationFactor=1)
        elif kind == "exists" and self.state.topics:
            out["name"] = self.topic()
        elif kind == "rf0":
            out["replicationFactor"] = self.r.choice([0, -2])
        elif kind == "rf":
            out["replicationFactor"] = len(self.live) + 1
        elif kind == "rf many":
            out["replicationFactor"] = 32767
        elif kind == "p0":
            out["numPartitions"] = 0
        elif kind == "pneg":
            out["numPartitions"] = -3
        elif kind == "both":
            out.update(assignments=[{"partitionIndex": 0, "brokerIds": ids[:1]}])
        else:
            self._assign_badly(kind, out, ids)
        return out

    def _assign_badly(self, kind: Any, out: Any, ids: Any) -> Any:
        if kind == "dup":
            out.update(
                numPartitions=-1,
                replicationFactor=-1,
                assignments=[{"partitionIndex": 0, "brokerIds": [ids[0], ids[0]]}],
            )
        elif kind == "unknown":
            out.update(
                numPartitions=-1, replicationFactor=-1, assignments=[{"partitionIndex": 0, "brokerIds": [ids[0], 99]}]
            )
        elif kind == "gap":
            out.update(
                numPartitions=-1,
                replicationFactor=-1,
                assignments=[{"partitionIndex": 0, "brokerIds": ids[:1]}, {"partitionIndex": 2, "brokerIds": ids[:1]}],
            )
        elif kind == "uneven":
            out.update(
                numPartitions=-1,
                replicationFactor=-1,
                assignments=[{"partitionIndex": 0, "brokerIds": ids[:1]}, {"partitionIndex": 1, "brokerIds": ids[:2]}],
            )
        elif kind == "collide" and self.state.topics:
            name = self.topic()
            out["name"] = name.replace(".", "_") if "." in name else name.replace("_", ".")
        elif kind == "config":
            out["configs"] = [{"name": "flush.ms", "value": "-7"}, {"name": "bogus", "value": "1"}]
        elif kind == "fenced":
            fenced = [b.id for b in self.state.brokers.values() if b.fenced]
            if fenced:
                out.update(
                    numPartitions=-1, replicationFactor=-1, assignments=[{"partitionIndex": 0, "brokerIds": fenced[:2]}]
                )
        elif kind == "empty":
            out.update(numPartitions=-1, replicationFactor=-1, assignments=[{"partitionIndex": 0, "brokerIds": []}])
        elif kind == "dup index":
            out.update(
                numPartitions=-1,
                replicationFactor=-1,
                assignments=[{"partitionIndex": 0, "brokerIds": ids[:1]}, {"partitionIndex": 0, "brokerIds": ids[:1]}],
            )
        elif kind == "negative":
            out.update(numPartitions=-1, replicationFactor=-1, assignments=[{"partitionIndex": 0, "brokerIds": [-1]}])

    def g_create_topics(self) -> Any:
        if len(self.state.topics) > 14:
            return self.g_delete_topics()
        topics = [
            self.bad_topic() if self.chance(0.25) else self.good_topic() for _ in range(self.r.choice([1, 1, 2, 3]))
        ]
        note = ""
        if self.chance(0.08):
            topics.append(dict(topics[0]))
            note = "a name twice"
        if self.chance(0.05):
            topics.append({"name": "defaults", "numPartitions": -1, "replicationFactor": -1})
        version = self.some_version("CreateTopics")
        if version < 4:
            topics = [t for t in topics if t["numPartitions"] != -1 or t.get("assignments")] or topics
        names = [t["name"] for t in topics]
        if len(set(names)) == len(names) and self.chance(0.03):
            topics = []
        return self.s.ask(
            "CreateTopics",
            {"topics": topics, "timeoutMs": 30000, "validateOnly": self.chance(0.12) and version >= 1},
            version=version,
            note=note,
        )

    def g_create_partitions(self) -> Any:
        name = self.topic()
        if name is None:
            return False
        parts = [p for p in self.state.partitions.values() if p.topic == name]
        kind = self.r.choice(CREATE_PARTITIONS_KINDS)
        count, given = len(parts) + self.r.randint(1, 2), None
        rf = len(parts[0].replicas)
        if kind == "explicit":
            given = [{"brokerIds": self.sample(self.all, rf)} for _ in range(count - len(parts))]
        elif kind == "fewer":
            count = self.r.choice([len(parts) - 1, 0, -1])
        elif kind == "same":
            count = len(parts)
        elif kind == "unknown":
            name = self.r.choice(["nowhere", "", "bad/name"])
        elif kind == "wrong count":
            given = [{"brokerIds": self.sample(self.all, rf)} for _ in range(count - len(parts) + 1)]
        elif kind == "dup":
            given = [{"brokerIds": [self.all[0]] * 2} for _ in range(count - len(parts))]
        elif kind == "unknown broker":
            given = [{"brokerIds": [98]} for _ in range(count - len(parts))]
        elif kind == "wrong rf":
            given = [{"brokerIds": self.sample(self.all, rf + 1)} for _ in range(count - len(parts))]
        elif kind == "fenced":
            fenced = [b.id for b in self.state.brokers.values() if b.fenced]
            given = [{"brokerIds": fenced[:rf]} for _ in range(count - len(parts))] if fenced else None
        topics = [{"name": name, "count": count, "assignments": given}]
        if kind == "twice":
            topics = topics * 2
        elif self.chance(0.2):
            topics.append({"name": "missing", "count": 3, "assignments": None})
        return self.s.ask(
            "CreatePartitions",
            {"topics": topics, "timeoutMs": 30000, "validateOnly": self.chance(0.15)},
            version=self.some_version("CreatePartitions"),
            note=kind,
        )

    def g_delete_topics(self) -> Any:
        if len(self.state.topics) < 3 and self.chance(0.8):
            return False
        kind = self.r.choice(DELETE_TOPICS_KINDS)
        name = self.topic()
        if name is None:
            name = "nothing"
        topic_id = self.state.topics.get(name, UNKNOWN_UUID)
        version = self.s.api_versions["DeleteTopics"][1]
        if kind == "old" or version < 6:
            version = self.r.randint(self.s.api_versions["DeleteTopics"][0], 5)
            return self.s.ask(
                "DeleteTopics",
                {"topicNames": [name] + (["missing"] if self.chance(0.3) else []), "timeoutMs": 30000},
                version=version,
            )
        zero = "AAAAAAAAAAAAAAAAAAAAAA"
        topics = {
            "name": [{"name": name, "topicId": zero}],
            "id": [{"name": None, "topicId": topic_id}],
            "unknown name": [{"name": "missing", "topicId": zero}],
            "unknown id": [{"name": None, "topicId": UNKNOWN_UUID}],
            "gone id": [{"name": None, "topicId": (self.state.gone_ids or [UNKNOWN_UUID])[-1]}],
            "both": [{"name": name, "topicId": topic_id}],
            "neither": [{"name": None, "topicId": zero}],
            "twice": [{"name": name, "topicId": zero}] * 2,
            "mixed": [
                {"name": name, "topicId": zero},
                {"name": "missing", "topicId": zero},
                {"name": None, "topicId": topic_id},
            ],
        }[kind]
        return self.s.ask("DeleteTopics", {"topics": topics, "timeoutMs": 30000}, version=version, note=kind)
