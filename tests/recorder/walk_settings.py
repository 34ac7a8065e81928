"""Configurations, quotas and features."""

from typing import Any

from recorder.walk_known import BROKER, TOPIC
from recorder.walk_partitions import Partitions


class Settings(Partitions):
    """Requests about settings."""

    def resource(self) -> Any:
        return self.r.choice(
            [
                (TOPIC, self.topic() or "missing"),
                (TOPIC, self.topic() or "missing"),
                (TOPIC, self.topic() or "missing"),
                (BROKER, ""),
                (BROKER, str(self.broker_id())),
                (BROKER, "99"),
                (TOPIC, "missing"),
                (TOPIC, ""),
                (BROKER, "abc"),
                (16, "metrics1"),
                (32, "group1"),
                (8, "1"),
                (0, "x"),
                (77, "x"),
            ]
        )

    def values(self, kind: Any) -> Any:
        topic = [
            ("min.insync.replicas", "1"),
            ("min.insync.replicas", "2"),
            ("min.insync.replicas", "3"),
            ("unclean.leader.election.enable", "true"),
            ("unclean.leader.election.enable", "false"),
            ("retention.ms", "5000"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "delete"),
            ("retention.ms", "often"),
            ("nonsense", "1"),
            ("min.insync.replicas", "-1"),
            ("leader.replication.throttled.replicas", "0:1"),
        ]
        broker = [
            ("min.insync.replicas", "2"),
            ("min.insync.replicas", "1"),
            ("unclean.leader.election.enable", "true"),
            ("unclean.leader.election.enable", "false"),
            ("log.retention.ms", "9000"),
            ("num.io.threads", "4"),
            ("message.max.bytes", "100000"),
            ("leader.replication.throttled.rate", "1000"),
            ("no.such", "x"),
            ("log.cleaner.threads", "zero"),
            ("max.connections.per.ip", "7"),
            ("listeners", "X://"),
        ]
        metrics = [
            ("metrics", "org.apache"),
            ("interval.ms", "1000"),
            ("interval.ms", "1"),
            ("match", "client_id=a"),
            ("bad", "1"),
        ]
        group = [
            ("consumer.session.timeout.ms", "50000"),
            ("consumer.session.timeout.ms", "1"),
            ("share.record.lock.duration.ms", "20000"),
            ("bad", "x"),
        ]
        return {TOPIC: topic, BROKER: broker, 8: [("kafka.x", "INFO")], 16: metrics, 32: group}.get(kind, [("a", "b")])

    def g_incremental(self) -> Any:
        resources = []
        for _ in range(self.r.choice([1, 1, 1, 2])):
            kind, name = self.resource()
            configs = []
            for key, value in self.sample(self.values(kind), self.r.choice([1, 1, 2])):
                op = self.r.choice([0, 0, 0, 0, 1, 2, 3]) if self.chance(0.97) else 9
                if op in (2, 3) and self.chance(0.7):
                    key, value = "cleanup.policy", self.r.choice(["compact", "delete"])
                if op == 1 and self.state.configs and self.chance(0.6):
                    keys = sorted(k for k in self.state.configs if k[0] == kind and k[1] == name)
                    if keys:
                        key = self.r.choice(keys)[2]
                configs.append({"name": key, "configOperation": op, "value": None if op == 1 else value})
            resources.append({"resourceType": kind, "resourceName": name, "configs": configs})
        if self.chance(0.05):
            resources.append(dict(resources[0]))
        if self.chance(0.03):
            resources[0]["configs"] = resources[0]["configs"] * 2
        return self.s.ask(
            "IncrementalAlterConfigs",
            {"resources": resources, "validateOnly": self.chance(0.12)},
            version=self.some_version("IncrementalAlterConfigs"),
        )

    def g_alter_configs(self) -> Any:
        kind, name = self.resource()
        configs = {k: v for k, v in self.sample(self.values(kind), self.r.choice([0, 1, 2]))}
        resources = [
            {
                "resourceType": kind,
                "resourceName": name,
                "configs": [{"name": k, "value": v} for k, v in configs.items()],
            }
        ]
        if self.chance(0.08):
            resources.append({"resourceType": TOPIC, "resourceName": "missing", "configs": []})
        return self.s.ask(
            "AlterConfigs",
            {"resources": resources, "validateOnly": self.chance(0.12)},
            version=self.some_version("AlterConfigs"),
        )

    def g_unclean(self) -> Any:
        """Unclean elections are allowed: for a topic, for a broker or for all."""
        where = self.r.choice(
            [(TOPIC, self.topic()), (TOPIC, self.topic()), (BROKER, ""), (BROKER, str(self.broker_id()))]
        )
        if where[1] is None:
            return False
        value = self.r.choice(["true", "true", "true", "false"])
        out = self.s.ask(
            "IncrementalAlterConfigs",
            {
                "resources": [
                    {
                        "resourceType": where[0],
                        "resourceName": where[1],
                        "configs": [{"name": "unclean.leader.election.enable", "configOperation": 0, "value": value}],
                    }
                ]
            },
            note="unclean elections",
        )
        if self.chance(0.4):
            self.g_tick()
        return out

    def g_min_isr(self) -> Any:
        where = self.r.choice(
            [(TOPIC, self.topic()), (TOPIC, self.topic()), (BROKER, ""), (BROKER, str(self.broker_id()))]
        )
        if where[1] is None:
            return False
        op = self.r.choice([0, 0, 0, 1])
        return self.s.ask(
            "IncrementalAlterConfigs",
            {
                "resources": [
                    {
                        "resourceType": where[0],
                        "resourceName": where[1],
                        "configs": [
                            {
                                "name": "min.insync.replicas",
                                "configOperation": op,
                                "value": None if op else self.r.choice(["1", "2", "3"]),
                            }
                        ],
                    }
                ]
            },
            note="min.insync.replicas",
        )

    def g_describe_configs(self) -> Any:
        if not self.has("DescribeConfigs"):
            return False
        kind, name = self.resource()
        keys = self.r.choice(
            [
                ["min.insync.replicas", "unclean.leader.election.enable", "retention.ms", "cleanup.policy"],
                ["min.insync.replicas"],
                ["nope"],
            ]
        )
        if self.chance(0.06) and kind == TOPIC:
            keys = None
        version = self.some_version("DescribeConfigs")
        body = {"resources": [{"resourceType": kind, "resourceName": name, "configurationKeys": keys}]}
        if version >= 1:
            body["includeSynonyms"] = self.chance(0.5)
        return self.s.ask("DescribeConfigs", body, version=version)

    def g_quotas(self) -> Any:
        def entity() -> Any:
            return self.r.choice(
                [
                    [("user", "alice")],
                    [("user", None)],
                    [("client-id", "app")],
                    [("user", "alice"), ("client-id", "app")],
                    [("ip", "127.0.0.1")],
                    [("ip", None)],
                    [("ip", "nowhere.invalid.")],
                    [("user", "")],
                    [("odd", "x")],
                    [("user", "a"), ("ip", "127.0.0.1")],
                    [],
                    [("user", "alice"), ("user", "alice")],
                    [("client-id", None)],
                ]
            )

        entries = []
        for _ in range(self.r.choice([1, 1, 2])):
            e = entity()
            key = self.r.choice(
                [
                    "producer_byte_rate",
                    "consumer_byte_rate",
                    "request_percentage",
                    "controller_mutation_rate",
                    "connection_creation_rate",
                    "bogus",
                ]
            )
            value = self.r.choice([1000.0, 10.0, 0.0, -1.0, 1.5, 3.0])
            entries.append(
                {
                    "entity": [{"entityType": t, "entityName": n} for t, n in e],
                    "ops": [{"key": key, "value": value, "remove": self.chance(0.2)}],
                }
            )
        return self.s.ask(
            "AlterClientQuotas",
            {"entries": entries, "validateOnly": self.chance(0.15)},
            version=self.some_version("AlterClientQuotas"),
        )

    def g_features(self) -> Any:
        supported = self.s.supported
        names = sorted(supported) + ["metadata.version"] * 3 + ["odd.version"]
        updates = []
        for name in {self.r.choice(names): 0, **({self.r.choice(names): 0} if self.chance(0.2) else {})}:
            low, high = supported.get(name, (0, 1))
            now = self.state.features.get(name, 0)
            level = self.r.choice([now + 1, now + 1, high, now, now - 1, low, 0, high + 1, max(low, now - 2), -1])
            kind = self.r.choice([1, 1, 1, 2, 2, 3, 0] if level >= now else [2, 2, 2, 3, 3, 1])
            updates.append({"feature": name, "maxVersionLevel": level, "upgradeType": kind})
        version = self.some_version("UpdateFeatures")
        if version == 0:
            for each in updates:
                each["allowDowngrade"] = each.pop("upgradeType") != 1
        if self.chance(0.05):
            updates.append(dict(updates[0]))
        return self.s.ask(
            "UpdateFeatures",
            {"featureUpdates": updates, "timeoutMs": 30000, **({"validateOnly": self.chance(0.2)} if version else {})},
            version=version,
        )

    def g_upgrade(self) -> Any:
        """The next level of metadata.version, or of ELR."""
        now = self.state.features.get("metadata.version", 0)
        if self.chance(0.3) and "eligible.leader.replicas.version" in self.s.supported:
            level = 1 - self.state.features.get("eligible.leader.replicas.version", 0)
            return self.s.ask(
                "UpdateFeatures",
                {
                    "featureUpdates": [
                        {
                            "feature": "eligible.leader.replicas.version",
                            "maxVersionLevel": level,
                            "upgradeType": 1 if level else self.r.choice([2, 3]),
                        }
                    ],
                    "timeoutMs": 30000,
                    "validateOnly": self.chance(0.1),
                },
                note="ELR on or off",
            )
        high = self.s.supported["metadata.version"][1]
        if now < high and self.chance(0.7):
            level, kind = self.r.choice([now + 1, min(high, now + 3), high]), 1
        else:
            level, kind = now - self.r.choice([1, 1, 2]), self.r.choice([2, 3])
        return self.s.ask(
            "UpdateFeatures",
            {
                "featureUpdates": [{"feature": "metadata.version", "maxVersionLevel": level, "upgradeType": kind}],
                "timeoutMs": 30000,
                "validateOnly": self.chance(0.1),
            },
            note="another metadata.version",
        )
