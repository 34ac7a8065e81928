"""Brokers register, send heartbeats, fall silent, shut down; their directories fail."""

from typing import Any, Final

from recorder.walk_known import FAR_MS, KnownState

REGISTER_KINDS: Final = [
    *("fresh", "same", "new", "new", "new", "cluster", "no metadata.version", "low feature", "no dirs"),
    *("reserved dirs", "shared dirs", "double dirs", "no listeners", "old version", "migrating", "rack"),
    *("more dirs", "stale previous", "zero incarnation", "unknown feature"),
]
BEAT_KINDS: Final = [
    *("plain", "plain", "fence", "fence", "stale", "stale", "unknown", "ahead", "both", "old version"),
]


class Brokers(KnownState):
    """Requests of brokers about themselves."""

    def make_broker(self, broker_id: Any) -> Any:
        self.incarnations[broker_id] = self.uuid()
        count = self.r.choice(self.s.dir_counts)
        self.dirs[broker_id] = [self.uuid() for _ in range(count)]
        self.racks[broker_id] = self.r.choice(self.s.racks)

    def features(self, broker_id: Any, **change: Any) -> Any:
        out = []
        for name, (low, high) in sorted(self.s.supported.items()):
            low, high = change.get(name.replace(".", "_"), (low, high))
            if high >= 0:
                out.append({"name": name, "minSupportedVersion": low, "maxSupportedVersion": high})
        return out

    def registration(self, broker_id: Any, version: Any, **given: Any) -> Any:
        body = {
            "brokerId": broker_id,
            "clusterId": self.s.cluster_id,
            "incarnationId": self.incarnations[broker_id],
            "listeners": [{"name": "PLAINTEXT", "host": f"b{broker_id}.example", "port": 9092, "securityProtocol": 0}],
            "features": self.features(broker_id, **self.s.feature_limits),
            "rack": self.racks[broker_id],
            "logDirs": self.dirs[broker_id],
            "previousBrokerEpoch": -1,
        }
        body.update(given)
        return body

    def register(self, broker_id: Any, note: Any, version: Any = None, **given: Any) -> Any:
        version = self.s.api_versions["BrokerRegistration"][1] if version is None else version
        body = self.registration(broker_id, version, **given)
        if version < 4:  # A feature whose lowest level is 0 cannot be said before.
            body["features"] = [f for f in body["features"]]
        return self.s.ask("BrokerRegistration", body, version=version, note=note)

    def beat(self, broker_id: Any, note: Any = "", version: Any = None, **given: Any) -> Any:
        version = self.s.api_versions["BrokerHeartbeat"][1] if version is None else version
        body = {
            "brokerId": broker_id,
            "brokerEpoch": self.epoch_of(broker_id),
            "currentMetadataOffset": self.s.end_offset - 1,
        }
        body.update(given)
        if version < 1:
            body.pop("offlineLogDirs", None)
        if version < 2:
            body.pop("cordonedLogDirs", None)
        return self.s.ask("BrokerHeartbeat", body, version=version, note=note)

    def start_brokers(self, count: Any) -> Any:
        first = self.r.choice([0, 1, 1, 1, 100])
        for broker_id in range(first, first + count):
            self.make_broker(broker_id)
            self.register(broker_id, "a new broker")
            if self.chance(0.9):
                self.beat(broker_id, "caught up")

    def g_register(self) -> Any:
        kind = self.r.choice(REGISTER_KINDS)
        known = [b for b in self.all if b in self.incarnations]
        if kind == "fresh" or not known:
            free = [i for i in range(0, 8) if i not in self.state.brokers]
            if not free or len(self.state.brokers) >= 7:
                return False
            broker_id = self.r.choice(free)
            self.make_broker(broker_id)
            return self.register(broker_id, "a new broker", previousBrokerEpoch=self.r.choice([-1, -1, 0, 7]))
        broker_id = self.r.choice(known)
        b = self.state.brokers[broker_id]
        if kind == "same":
            return self.register(
                broker_id, "the same incarnation again", previousBrokerEpoch=self.r.choice([-1, b.epoch])
            )
        if kind in ("new", "stale previous"):
            old = self.incarnations[broker_id]
            self.incarnations[broker_id] = self.uuid()
            epochs = self.state.known_epochs.get(broker_id, [-1])
            previous = (
                self.r.choice([b.epoch, b.epoch, -1])
                if kind == "new"
                else self.r.choice([epochs[0], b.epoch - 1, b.epoch + 1])
            )
            out = self.register(broker_id, "a new incarnation", previousBrokerEpoch=previous)
            if out["errorCode"] if out else True:
                self.incarnations[broker_id] = old
            return True
        return self._register_oddly(kind, broker_id, known)

    def _register_oddly(self, kind: Any, broker_id: Any, known: Any) -> Any:
        if kind == "cluster":
            return self.register(broker_id, "another cluster's id", clusterId="AAAAAAAAAAAAAAAAAAAAAw")
        if kind == "no metadata.version":
            return self.register(
                broker_id,
                "no metadata.version",
                features=[f for f in self.features(broker_id) if f["name"] != "metadata.version"],
            )
        if kind == "low feature":
            name = self.r.choice(sorted(self.s.supported))
            low = self.s.supported[name][0]
            return self.register(
                broker_id, f"{name} too low", features=self.features(broker_id, **{name.replace(".", "_"): (low, low)})
            )
        if kind == "unknown feature":
            return self.register(
                broker_id,
                "a feature that nobody knows",
                features=[
                    *self.features(broker_id),
                    {"name": "odd.version", "minSupportedVersion": 1, "maxSupportedVersion": 3},
                ],
            )
        return self._register_directories(kind, broker_id, known)

    def _register_directories(self, kind: Any, broker_id: Any, known: Any) -> Any:
        if kind == "no dirs":
            return self.register(broker_id, "no directories", logDirs=[])
        if kind == "reserved dirs":
            return self.register(
                broker_id,
                "a reserved directory id",
                logDirs=[
                    self.r.choice(
                        [
                            "AAAAAAAAAAAAAAAAAAAAAA",
                            "AAAAAAAAAAAAAAAAAAAAAQ",
                            "AAAAAAAAAAAAAAAAAAAAAg",
                            "AAAAAAAAAAAAAAAAAAAAYw",
                        ]
                    )
                ],
            )
        if kind == "double dirs":
            return self.register(
                broker_id, "a directory twice", logDirs=self.dirs[broker_id] + self.dirs[broker_id][:1]
            )
        if kind == "shared dirs":
            other = self.r.choice(known)
            return self.register(broker_id, f"directories of broker {other}", logDirs=self.dirs[other])
        if kind == "no listeners":
            return self.register(broker_id, "no listeners", listeners=[])
        if kind == "zero incarnation":
            return self.register(broker_id, "incarnation zero", incarnationId="AAAAAAAAAAAAAAAAAAAAAA")
        if kind == "old version":
            lowest = self.s.api_versions["BrokerRegistration"][0]
            version = self.r.randint(lowest, self.s.api_versions["BrokerRegistration"][1])
            return self.register(broker_id, f"version {version}", version=version)
        if kind == "migrating":
            return self.register(broker_id, "a broker in migration", isMigratingZkBroker=True)
        if kind == "rack":
            self.racks[broker_id] = self.r.choice([None, "r1", "r9", ""])
            return self.register(broker_id, "another rack")
        if kind == "more dirs":
            dirs = self.dirs[broker_id]
            self.dirs[broker_id] = [*dirs, self.uuid()] if len(dirs) < 3 or self.chance(0.5) else dirs[:-1]
            return self.register(broker_id, "directories changed")

    def g_unfence(self) -> Any:
        b = self.pick([b for b in self.state.brokers.values() if b.fenced])
        if b is None:
            return False
        low = self.chance(0.15)
        offset = self.r.choice([0, b.epoch - 1, b.epoch]) if low else self.s.end_offset - 1
        return self.beat(
            b.id, "wants to be unfenced" + (f", at offset {offset}" if low else ""), currentMetadataOffset=offset
        )

    def g_beat(self) -> Any:
        if not self.all:
            return False
        broker_id = self.broker_id()
        b = self.state.brokers[broker_id]
        kind = self.r.choice(BEAT_KINDS)
        if kind == "plain":
            return self.beat(broker_id, "a heartbeat", wantFence=b.fenced, wantShutDown=b.shutting)
        if kind == "fence":
            return self.beat(broker_id, "wants to be fenced", wantFence=True)
        if kind == "stale":
            epochs = self.state.known_epochs[broker_id]
            return self.beat(
                broker_id, "a stale epoch", brokerEpoch=self.r.choice([b.epoch - 1, b.epoch + 1, -1, epochs[0]])
            )
        if kind == "unknown":
            return self.beat(self.r.choice([77, -1, 3000]), "an unknown broker", brokerEpoch=self.r.choice([-1, 5]))
        if kind == "ahead":
            return self.beat(
                broker_id, "an offset beyond the end", currentMetadataOffset=self.s.end_offset + 100, wantFence=b.fenced
            )
        if kind == "both":
            return self.beat(broker_id, "wants both", wantFence=True, wantShutDown=True)
        return self.beat(
            broker_id,
            "an old version",
            version=self.r.randint(*self.s.api_versions["BrokerHeartbeat"]),
            wantFence=b.fenced,
        )

    def g_shutdown(self) -> Any:
        b = (
            self.pick([b for b in self.state.brokers.values() if b.shutting and not b.fenced] or self.live)
            if self.chance(0.9)
            else self.pick(self.state.brokers.values())
        )
        if b is None:
            return False
        self.beat(b.id, "wants to shut down", wantShutDown=True)
        if self.chance(0.5):
            for other in sorted(self.state.brokers):
                if other != b.id and not self.state.brokers[other].fenced:
                    self.beat(other, "keeps up", wantShutDown=self.state.brokers[other].shutting)
            self.beat(b.id, "still wants to shut down", wantShutDown=True)
            if self.chance(0.5):
                known = self.state.brokers.get(b.id)
                old = self.incarnations.get(b.id)
                self.incarnations[b.id] = self.uuid()
                out = self.register(
                    b.id,
                    "a new incarnation after its shutdown",
                    previousBrokerEpoch=self.r.choice([known.epoch, known.epoch, -1]),
                )
                if not out or out["errorCode"]:
                    self.incarnations[b.id] = old
                elif self.chance(0.8):
                    self.beat(b.id, "caught up")
        return True

    def g_expire(self) -> Any:
        """Some brokers fall silent, and their sessions end."""
        if len(self.live) < 2:
            return False
        half = self.r.randint(1, max(1, len(self.live) // 2 + (1 if self.chance(0.3) else 0)))
        victims = {b.id for b in self.sample(self.live, half)}
        if self.chance(0.05):
            victims = {b.id for b in self.live}
        self.s.advance(FAR_MS, f"brokers {sorted(victims)} have fallen silent")
        for broker_id in self.all:
            b = self.state.brokers[broker_id]
            if broker_id not in victims:
                self.beat(broker_id, "keeps its session", wantFence=b.fenced, wantShutDown=b.shutting)
        self.s.advance(FAR_MS, f"sessions of brokers {sorted(victims)} end")
        back = [b for b in sorted(victims) if self.chance(0.6)]
        for broker_id in back:
            if broker_id not in self.state.brokers:
                continue
            mode = self.r.choice(["same", "crash", "clean"])
            if mode == "same":
                self.beat(broker_id, "is back, the same incarnation", wantFence=False)
                continue
            old = self.incarnations.get(broker_id)
            self.incarnations[broker_id] = self.uuid()
            out = self.register(
                broker_id,
                f"is back, a new incarnation ({mode})",
                previousBrokerEpoch=self.epoch_of(broker_id) if mode == "clean" else -1,
            )
            if not out or out["errorCode"]:
                self.incarnations[broker_id] = old
            elif self.chance(0.85):
                self.beat(broker_id, "caught up")
        return True

    def g_tick(self) -> Any:
        """Time passes, no session ends: periodic work."""
        self.s.advance(FAR_MS, "time passes")
        for broker_id in self.all:
            b = self.state.brokers[broker_id]
            self.beat(broker_id, "keeps its session", wantFence=b.fenced, wantShutDown=b.shutting)
        return True

    def g_dirs(self) -> Any:
        """Log directories fail or are cordoned."""
        b = self.pick(self.state.brokers.values())
        if b is None or not self.has("BrokerHeartbeat", 1):
            return False
        dirs = b.dirs or self.dirs.get(b.id, [])
        if self.chance(0.5) and self.has("BrokerHeartbeat", 2):
            which = self.r.choice([[], dirs[:1], dirs, dirs[-1:], [self.uuid()], None])
            return self.beat(b.id, "cordoned directories", cordonedLogDirs=which, wantFence=b.fenced)
        which = self.r.choice([dirs[:1], dirs[-1:], dirs[:1], dirs, [self.uuid()], []])
        return self.beat(b.id, "offline directories", offlineLogDirs=which, wantFence=b.fenced)

    def g_unregister(self) -> Any:
        if self.chance(0.2) or not self.all:
            return self.s.ask("UnregisterBroker", {"brokerId": self.r.choice([99, -1, 3000])}, note="an unknown broker")
        fenced = [b.id for b in self.state.brokers.values() if b.fenced]
        return self.s.ask(
            "UnregisterBroker", {"brokerId": self.pick(fenced) if fenced and self.chance(0.6) else self.broker_id()}
        )
