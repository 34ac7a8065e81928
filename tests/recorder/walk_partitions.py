"""ISRs change, leaders are elected, replicas move."""

from typing import Any, Final

from recorder.walk_known import UNKNOWN_UUID
from recorder.walk_topics import Topics

ALTER_KINDS: Final = [
    *("shrink", "shrink", "expand", "expand", "expand", "one", "same", "leader epoch", "partition epoch"),
    *("broker epoch", "not leader", "no leader in", "not a replica", "ineligible", "recovering"),
    *("unknown topic", "unknown partition", "stale member", "several", "empty", "bad state", "order"),
]
REASSIGN_KINDS: Final = [
    *("set", "set", "set", "set", "cancel", "bad broker", "dup", "empty", "unknown", "unknown partition"),
    *("same", "negative", "several"),
]
ASSIGN_DIRS_KINDS: Final = [
    *("good", "good", "good", "good", "unknown topic", "unknown partition", "not a replica", "lost"),
    *("unassigned", "unknown dir", "epoch", "several", "same", "migrating", "zero topic"),
]


class Partitions(Topics):
    """Requests about partitions."""

    def alter(self, broker_id: Any, partitions: Any, note: Any, version: Any = None, broker_epoch: Any = None) -> Any:
        """`partitions`: (partition, new ISR, changes)."""
        lowest, highest = self.s.api_versions["AlterPartition"]
        if version is None:
            version = self.r.randint(lowest, highest) if self.chance(0.3) else highest
        topics = {}
        for p, isr, changes in partitions:
            data = {
                "partitionIndex": p.index,
                "leaderEpoch": p.leader_epoch,
                "partitionEpoch": p.epoch,
                "leaderRecoveryState": p.recovery if p.recovery < 0 else 0,
            }
            if version >= 3:
                data["newIsrWithEpochs"] = [
                    {"brokerId": i, "brokerEpoch": self.r.choice([self.epoch_of(i)] * 6 + [-1])} for i in isr
                ]
            else:
                data["newIsr"] = isr
            data.update(changes)
            topic = {"topicId": self.state.topics.get(p.topic, UNKNOWN_UUID), "partitions": []}
            if version < 2:
                topic["topicName"] = p.topic
                topic.pop("topicId")
            topics.setdefault(p.topic, topic)["partitions"].append(data)
        body = {
            "brokerId": broker_id,
            "brokerEpoch": self.epoch_of(broker_id) if broker_epoch is None else broker_epoch,
            "topics": list(topics.values()),
        }
        return self.s.ask("AlterPartition", body, version=version, note=note)

    def g_alter(self) -> Any:
        p = self.partition(lambda p: p.leader >= 0)
        if p is None:
            return False
        kind = self.r.choice(ALTER_KINDS)
        isr, rest = p.isr, [i for i in p.replicas if i not in p.isr]
        up = [
            i
            for i in rest
            if i in self.state.brokers and not self.state.brokers[i].fenced and not self.state.brokers[i].shutting
        ]
        if kind == "shrink":
            others = [i for i in isr if i != p.leader]
            if not others:
                return False
            out = self.r.choice(others)
            return self.alter(p.leader, [(p, [i for i in isr if i != out], {})], "the ISR shrinks")
        if kind == "expand":
            if not up:
                p = (
                    self.partition(
                        lambda p: (
                            p.leader >= 0
                            and any(
                                i not in p.isr and i in self.state.brokers and not self.state.brokers[i].fenced
                                for i in p.replicas
                            )
                        )
                    )
                    or p
                )
                up = [
                    i
                    for i in p.replicas
                    if i not in p.isr and i in self.state.brokers and not self.state.brokers[i].fenced
                ]
                if not up:
                    return False
            joins = up if self.chance(0.5) else [self.r.choice(up)]
            return self.alter(p.leader, [(p, p.isr + joins, {})], "the ISR grows")
        if kind == "one":
            return self.alter(p.leader, [(p, [p.leader], {})], "the ISR shrinks to the leader")
        if kind == "same":
            return self.alter(p.leader, [(p, isr, {})], "the same ISR")
        if kind == "order":
            return self.alter(p.leader, [(p, isr[::-1], {})], "the same ISR in another order")
        return self._alter_wrongly(kind, p, up)

    def _alter_wrongly(self, kind: Any, p: Any, up: Any) -> Any:
        isr, rest = p.isr, [i for i in p.replicas if i not in p.isr]
        if kind == "leader epoch":
            return self.alter(
                p.leader,
                [(p, [p.leader], {"leaderEpoch": p.leader_epoch + self.r.choice([-1, 1, 10])})],
                "a wrong leader epoch",
            )
        if kind == "partition epoch":
            return self.alter(
                p.leader,
                [(p, [p.leader], {"partitionEpoch": p.epoch + self.r.choice([-1, 1, 10])})],
                "a wrong partition epoch",
            )
        if kind == "broker epoch":
            return self.alter(
                p.leader,
                [(p, [p.leader], {})],
                "a wrong broker epoch",
                broker_epoch=self.epoch_of(p.leader) + self.r.choice([-1, 1]),
            )
        if kind == "not leader":
            other = self.pick([i for i in self.all if i != p.leader])
            return other is not None and self.alter(other, [(p, isr, {})], "not by the leader")
        if kind == "no leader in":
            return self.alter(
                p.leader, [(p, [i for i in p.replicas if i != p.leader][:1], {})], "an ISR without the leader"
            )
        if kind == "not a replica":
            other = self.pick([i for i in [*self.all, 99] if i not in p.replicas])
            return self.alter(p.leader, [(p, [*isr, other], {})], "a member that is no replica")
        if kind == "ineligible":
            down = [i for i in rest if i not in up]
            return bool(down) and self.alter(p.leader, [(p, isr + down[:1], {})], "a fenced or leaving member")
        return self._alter_oddly(kind, p, up)

    def _alter_oddly(self, kind: Any, p: Any, up: Any) -> Any:
        isr = p.isr
        if kind == "recovering":
            return self.alter(
                p.leader, [(p, self.r.choice([isr, [p.leader]]), {"leaderRecoveryState": 1})], "recovering"
            )
        if kind == "bad state":
            return self.alter(
                p.leader, [(p, isr, {"leaderRecoveryState": self.r.choice([2, -1, 7])})], "an unknown recovery state"
            )
        if kind == "unknown topic":
            version = self.s.api_versions["AlterPartition"][1]
            body = {
                "brokerId": p.leader,
                "brokerEpoch": self.epoch_of(p.leader),
                "topics": [
                    {
                        "topicId": self.r.choice([UNKNOWN_UUID, *self.state.gone_ids[-1:]]),
                        "partitions": [
                            {
                                "partitionIndex": 0,
                                "leaderEpoch": 0,
                                "partitionEpoch": 0,
                                "newIsrWithEpochs": [{"brokerId": p.leader, "brokerEpoch": -1}],
                            }
                        ],
                    }
                ],
            }
            return self.s.ask("AlterPartition", body, version=version, note="an unknown topic")
        if kind == "unknown partition":
            return self.alter(p.leader, [(p, isr, {"partitionIndex": 55})], "an unknown partition")
        if kind == "stale member":
            if not up or self.s.api_versions["AlterPartition"][1] < 3:
                return False
            members = [{"brokerId": i, "brokerEpoch": self.epoch_of(i)} for i in isr] + [
                {"brokerId": up[0], "brokerEpoch": self.epoch_of(up[0]) - 1}
            ]
            return self.alter(p.leader, [(p, isr, {"newIsrWithEpochs": members})], "a member's stale epoch", version=3)
        if kind == "empty":
            return self.alter(p.leader, [(p, [], {})], "an empty ISR")
        led = [q for _, q in sorted(self.state.partitions.items()) if q.leader == p.leader]
        chosen = self.sample(led, 3)
        return self.alter(p.leader, [(q, self.r.choice([[q.leader], q.isr]), {}) for q in chosen], "several partitions")

    def g_shrink_all(self) -> Any:
        """A leader drops all followers of all that it leads."""
        b = self.pick(self.live)
        if b is None:
            return False
        led = [q for _, q in sorted(self.state.partitions.items()) if q.leader == b.id and len(q.isr) > 1]
        return bool(led) and self.alter(
            b.id,
            [(q, [q.leader], {}) for q in led],
            "alone in every ISR",
            version=self.s.api_versions["AlterPartition"][1],
        )

    def g_grow_all(self) -> Any:
        """A leader takes back all that live."""
        b = self.pick(self.live)
        if b is None:
            return False
        live = {x.id for x in self.live}
        led = [
            (q, q.isr + [i for i in q.replicas if i not in q.isr and i in live], {})
            for _, q in sorted(self.state.partitions.items())
            if q.leader == b.id
        ]
        led = [each for each in led if len(each[1]) > len(each[0].isr)]
        return bool(led) and self.alter(b.id, led, "every ISR grows", version=self.s.api_versions["AlterPartition"][1])

    def g_last_member(self) -> Any:
        """The last member of an ISR goes."""
        p = self.partition(lambda p: len(p.isr) == 1 and p.leader >= 0) or self.partition(lambda p: p.leader >= 0)
        if p is None:
            return False
        if len(p.isr) > 1:
            self.alter(
                p.leader,
                [(p, [p.leader], {})],
                "the ISR shrinks to the leader",
                version=self.s.api_versions["AlterPartition"][1],
            )
        if p.leader < 0 or p.leader not in self.state.brokers:
            return True
        leader = p.leader
        if self.chance(0.4):
            for other in p.elr + [i for i in p.replicas if i != leader]:
                if other in self.state.brokers and not self.state.brokers[other].fenced and self.chance(0.6):
                    self.beat(other, "goes as well", wantFence=True)
        self.beat(leader, "the last member goes", **self.r.choice([{"wantFence": True}, {"wantShutDown": True}]))
        if self.chance(0.4):
            self.g_unfence()
        if self.chance(0.4):
            self.s.ask(
                "ElectLeaders",
                {
                    "electionType": 1,
                    "topicPartitions": [{"topic": p.topic, "partitions": [p.index]}],
                    "timeoutMs": 30000,
                },
                note="unclean",
            )
        return True

    def g_elect(self) -> Any:
        kind = self.r.choice([0, 0, 0, 1, 1])
        version = self.some_version("ElectLeaders")
        if version == 0:
            kind = 0
        if self.chance(0.25):
            given = None
        else:
            chosen = self.sample(sorted(self.state.partitions), self.r.randint(1, 3))
            topics = {}
            for name, index in chosen:
                topics.setdefault(name, []).append(index)
            given = [{"topic": t, "partitions": ps} for t, ps in topics.items()]
            if self.chance(0.15):
                given.append({"topic": "missing", "partitions": [0]})
            if self.chance(0.1) and given:
                given[0]["partitions"].append(44)
        body = {"topicPartitions": given, "timeoutMs": 30000}
        if version >= 1:
            body["electionType"] = kind if self.chance(0.96) else 5
        return self.s.ask("ElectLeaders", body, version=version, note="unclean" if kind else "preferred")

    def g_elect_leaderless(self) -> Any:
        p = self.partition(lambda p: p.leader == -1)
        if p is None:
            return False
        return self.s.ask(
            "ElectLeaders",
            {
                "electionType": self.r.choice([0, 1, 1]),
                "topicPartitions": [{"topic": p.topic, "partitions": [p.index]}],
                "timeoutMs": 30000,
            },
            note="a partition without a leader",
        )

    def g_reassign(self) -> Any:
        under_way = self.partition(lambda p: p.adding or p.removing)
        p = under_way if under_way and self.chance(0.35) else self.partition()
        if p is None:
            return False
        kind = self.r.choice(REASSIGN_KINDS)
        ids = self.all
        version = self.some_version("AlterPartitionReassignments")
        replicas = self.sample(ids, self.r.choice([len(p.replicas), len(p.replicas), 1, 2, 3]))
        name, index = p.topic, p.index
        if kind == "cancel":
            replicas = None
        elif kind == "bad broker":
            replicas = [*replicas, 99]
        elif kind == "dup":
            replicas = replicas + replicas[:1]
        elif kind == "empty":
            replicas = []
        elif kind == "unknown":
            name = "missing"
        elif kind == "unknown partition":
            index = 33
        elif kind == "same":
            replicas = p.replicas[::-1] if self.chance(0.5) else list(p.replicas)
        elif kind == "negative":
            replicas = [-1]
        topics = {name: [{"partitionIndex": index, "replicas": replicas}]}
        if kind == "several":
            for key in self.sample(sorted(self.state.partitions), 3):
                if key != (name, index):
                    topics.setdefault(key[0], []).append(
                        {"partitionIndex": key[1], "replicas": self.sample(ids, 2) if self.chance(0.7) else None}
                    )
        body = {"timeoutMs": 30000, "topics": [{"name": n, "partitions": ps} for n, ps in topics.items()]}
        if version >= 1 and self.chance(0.25):
            body["allowReplicationFactorChange"] = False
        return self.s.ask("AlterPartitionReassignments", body, version=version, note=kind)

    def g_complete(self) -> Any:
        """The leader of a partition that moves takes in those that were added."""
        p = self.partition(lambda p: (p.adding or p.removing) and p.leader >= 0)
        if p is None:
            return False
        live = {x.id for x in self.live}
        new = [i for i in p.replicas if i not in p.isr and i in live]
        if self.chance(0.3):
            new = new[:1]
        return self.alter(
            p.leader,
            [(p, p.isr + new, {})],
            "the added replicas have caught up",
            version=self.s.api_versions["AlterPartition"][1],
        )

    def g_list_reassign(self) -> Any:
        given = None
        if self.chance(0.4) and self.state.partitions:
            name, index = self.r.choice(sorted(self.state.partitions))
            given = [{"name": name, "partitionIndexes": [index, 77]}, {"name": "missing", "partitionIndexes": [0]}]
        return self.s.ask("ListPartitionReassignments", {"topics": given, "timeoutMs": 30000})

    def _by_directory(self, broker_id: Any, dirs: Any) -> Any:
        mine = [q for _, q in sorted(self.state.partitions.items()) if broker_id in q.replicas]
        by_dir = {}
        for q in mine:
            by_dir.setdefault(self.r.choice(dirs), {}).setdefault(q.topic, []).append(q.index)
        return [
            {
                "id": d,
                "topics": [
                    {"topicId": self.state.topics[t], "partitions": [{"partitionIndex": i} for i in ps]}
                    for t, ps in ts.items()
                ],
            }
            for d, ts in by_dir.items()
        ]

    def g_assign_dirs(self) -> Any:
        p = self.partition()
        if p is None or not self.has("AssignReplicasToDirs"):
            return False
        kind = self.r.choice(ASSIGN_DIRS_KINDS)
        broker_id = self.r.choice(p.replicas)
        b = self.state.brokers.get(broker_id)
        dirs = (b.dirs if b else None) or [UNKNOWN_UUID]
        topic_id, index, target, epoch = (
            self.state.topics[p.topic],
            p.index,
            self.r.choice(dirs),
            self.epoch_of(broker_id),
        )
        more = []
        if kind == "unknown topic":
            topic_id = self.r.choice([UNKNOWN_UUID, *self.state.gone_ids[-1:]])
        elif kind == "zero topic":
            topic_id = "AAAAAAAAAAAAAAAAAAAAAA"
        elif kind == "unknown partition":
            index = 66
        elif kind == "not a replica":
            broker_id = self.pick([i for i in self.all if i not in p.replicas])
            if broker_id is None:
                return False
            target, epoch = (self.state.brokers[broker_id].dirs or [UNKNOWN_UUID])[0], self.epoch_of(broker_id)
        elif kind in ("lost", "unassigned", "migrating"):
            target = {
                "lost": "AAAAAAAAAAAAAAAAAAAAAg",
                "unassigned": "AAAAAAAAAAAAAAAAAAAAAQ",
                "migrating": "AAAAAAAAAAAAAAAAAAAAAA",
            }[kind]
        elif kind == "unknown dir":
            target = self.uuid()
        elif kind == "epoch":
            epoch += self.r.choice([-1, 1])
        elif kind == "same":
            at = p.replicas.index(broker_id)
            target = p.dirs[at] if at < len(p.dirs) else target
        elif kind == "several":
            more = self._by_directory(broker_id, dirs)
        directories = more or [
            {"id": target, "topics": [{"topicId": topic_id, "partitions": [{"partitionIndex": index}]}]}
        ]
        return self.s.ask(
            "AssignReplicasToDirs", {"brokerId": broker_id, "brokerEpoch": epoch, "directories": directories}, note=kind
        )
