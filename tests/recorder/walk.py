"""Which request comes next."""

import base64
from typing import Any

from recorder.themes import THEMES
from recorder.walk_security import Security


class Walk(Security):
    """All of the walk: what is read, tokens, envelopes, and what no controller serves."""

    def g_producer_ids(self) -> Any:
        broker_id = self.broker_id()
        epoch = self.epoch_of(broker_id)
        if self.chance(0.35):
            broker_id, epoch = self.r.choice([(broker_id, epoch - 1), (broker_id, epoch + 1), (88, 5), (broker_id, -1)])
        return self.s.ask("AllocateProducerIds", {"brokerId": broker_id, "brokerEpoch": epoch})

    def g_describe(self) -> Any:
        kind = self.r.choice(["cluster", "quorum", "versions", "registration", "raft"])
        if kind == "cluster":
            version = self.some_version("DescribeCluster")
            body = {"includeClusterAuthorizedOperations": self.chance(0.4)}
            if version >= 1:
                body["endpointType"] = self.r.choice([2, 2, 2, 1, 7])
            if version >= 2:
                body["includeFencedBrokers"] = self.chance(0.3)
            return self.s.ask("DescribeCluster", body, version=version)
        if kind == "quorum":
            topic = self.r.choice(["__cluster_metadata"] * 4 + ["other"])
            return self.s.ask(
                "DescribeQuorum",
                {"topics": [{"topicName": topic, "partitions": [{"partitionIndex": self.r.choice([0, 0, 0, 1])}]}]},
                version=self.some_version("DescribeQuorum"),
            )
        if kind == "versions":
            _lowest, highest = self.s.api_versions["ApiVersions"]
            version = self.r.choice([highest, highest, 3, 0])
            body = {"clientSoftwareName": "story", "clientSoftwareVersion": "1"} if version >= 3 else {}
            if version >= 3 and self.chance(0.1):
                body["clientSoftwareName"] = "bad name!"
            return self.s.ask("ApiVersions", body, version=version)
        return self._ask_controllers(kind)

    def _ask_controllers(self, kind: Any) -> Any:
        if kind == "raft" and self.has("RemoveRaftVoter"):
            if self.chance(0.5):
                return self.s.ask(
                    "RemoveRaftVoter",
                    {
                        "clusterId": self.r.choice([self.s.cluster_id, None, "AAAAAAAAAAAAAAAAAAAAAw"]),
                        "voterId": 3009,
                        "voterDirectoryId": self.uuid(),
                    },
                    note="no such voter",
                )
            return self.s.ask(
                "AddRaftVoter",
                {
                    "clusterId": self.r.choice([self.s.cluster_id, "AAAAAAAAAAAAAAAAAAAAAw"]),
                    "timeoutMs": 1000,
                    "voterId": 3000,
                    "voterDirectoryId": self.s.directory_id,
                    "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": self.s.port}],
                },
                version=0,
                note="a voter already",
            )
        if kind == "registration" and self.s.can_register_controller:
            features = [
                {"name": n, "minSupportedVersion": lo, "maxSupportedVersion": hi}
                for n, (lo, hi) in sorted(self.s.supported.items())
            ]
            return self.s.ask(
                "ControllerRegistration",
                {
                    "controllerId": 3001,
                    "incarnationId": self.uuid(),
                    "zkMigrationReady": self.chance(0.1),
                    "listeners": self.r.choice(
                        [[], [{"name": "CONTROLLER", "host": "c1.example", "port": 9093, "securityProtocol": 0}]]
                    ),
                    "features": features if self.chance(0.8) else features[:1],
                },
                note="another controller",
            )
        return False

    def _create_token(self, where: Any) -> Any:
        version = self.some_version("CreateDelegationToken")
        body = {
            "renewers": self.r.choice(
                [
                    [],
                    [{"principalType": "User", "principalName": "bob"}],
                    [{"principalType": "Odd", "principalName": "bob"}],
                ]
            ),
            "maxLifetimeMs": self.r.choice([-1, 600000, 2000000, 10**15, 0]),
        }
        if version >= 3:
            body.update(
                self.r.choice(
                    [
                        {"ownerPrincipalType": None, "ownerPrincipalName": None},
                        {"ownerPrincipalType": "User", "ownerPrincipalName": "carol"},
                        {"ownerPrincipalType": None, "ownerPrincipalName": None},
                        {"ownerPrincipalType": "", "ownerPrincipalName": ""},
                    ]
                )
            )
        out = self.s.ask("CreateDelegationToken", body, version=version, **where)
        if out and not out.get("errorCode"):
            self.tokens.append(out["hmac"])
        return True

    def g_tokens(self) -> Any:
        if not self.s.tokens or not self.has("CreateDelegationToken"):
            return False
        alice = ("User", self.r.choice(["alice", "alice", "bob", "ANONYMOUS"]))
        kind = self.r.choice(["create", "create", "create", "renew", "renew", "expire", "expire", "describe"])
        known = list(self.tokens)
        hmac = self.r.choice(known) if known and self.chance(0.85) else base64.b64encode(self.r.randbytes(64)).decode()
        where = {"envelope": alice} if self.chance(0.85) else {}
        if kind == "create":
            return self._create_token(where)
        if kind == "renew":
            return self.s.ask(
                "RenewDelegationToken",
                {"hmac": hmac, "renewPeriodMs": self.r.choice([-1, 400000, 10**14])},
                version=self.some_version("RenewDelegationToken"),
                **where,
            )
        if kind == "expire":
            return self.s.ask(
                "ExpireDelegationToken",
                {"hmac": hmac, "expiryTimePeriodMs": self.r.choice([-1, -1, 400000, 10**14])},
                version=self.some_version("ExpireDelegationToken"),
                **where,
            )
        return (
            self.s.ask(
                "DescribeDelegationToken",
                {"owners": self.r.choice([None, [], [{"principalType": "User", "principalName": "alice"}]])},
                **where,
            )
            if self.has("DescribeDelegationToken")
            else False
        )

    def g_envelope(self) -> Any:
        """The next request goes in an envelope, with a principal."""
        forward = [
            self.g_create_topics,
            self.g_create_partitions,
            self.g_delete_topics,
            self.g_elect,
            self.g_reassign,
            self.g_list_reassign,
            self.g_incremental,
            self.g_alter_configs,
            self.g_quotas,
            self.g_scram,
            self.g_create_acls,
            self.g_delete_acls,
            self.g_features,
            self.g_unregister,
            self.g_create_topics,
            self.g_incremental,
        ]
        self.s.next_envelope = (
            "User",
            self.r.choice(["ANONYMOUS", "alice", "alice", "bob"])
            if self.s.authorizer
            else self.r.choice(["ANONYMOUS", "alice"]),
        )
        out = self.r.choice(forward)()
        self.s.next_envelope = None
        return out

    def g_bad_envelope(self) -> Any:
        kind = self.r.choice(
            [
                "nested",
                "not forwardable",
                "no principal",
                "bad principal",
                "bad bytes",
                "bad address",
                "bad version",
                "read",
                "old header",
                "token",
            ]
        )
        return self.s.bad_envelope(kind, self)

    def g_wrong(self) -> Any:
        """A version or an API that the controller does not have."""
        kind = self.r.choice(["version", "version", "api", "versions", "garbage"])
        return self.s.wrong(kind, self)

    def run(self) -> Any:
        self.begin()
        while len(self.s.steps) < self.s.length and not self.s.broken:
            self.go_on()

    def begin(self) -> Any:
        story = self.s
        self.start_brokers(story.broker_count)
        for _ in range(2):
            story.ask(
                "CreateTopics",
                {
                    "topics": [self.good_topic(explicit=True), self.good_topic(explicit=self.chance(0.5))],
                    "timeoutMs": 30000,
                },
            )

    def go_on(self) -> Any:
        """One request, or a few that belong together."""
        weights = THEMES[self.s.theme]
        names = sorted(weights)
        name = self.r.choices(names, [weights[n] for n in names])[0]
        getattr(self, "g_" + name)()
