"""How the controller of a story is set up: drawn from its seed."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.kraft.recorded.story_wire import Json

NODE: Final = 3000
SESSION_MS: Final = 1_000_000
_LEVELS: Final = {
    "4.4.0": "3.3-IV3 3.5-IV2 3.7-IV4 3.9-IV0 4.0-IV1 4.1-IV1 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2",
    "4.3.1": "3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV3 4.1-IV1 4.2-IV1 4.3-IV0",
    "4.1.2": "3.3-IV3 3.4-IV0 3.6-IV2 3.7-IV4 3.9-IV0 4.0-IV1 4.0-IV3 4.1-IV1",
    "3.9.1": "3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV2 3.7-IV4 3.8-IV0 3.9-IV0",
}
LEVELS: Final = {release: levels.split() for release, levels in _LEVELS.items()}
DYNAMIC_FROM: Final = "3.9-IV0"  # kraft.version 1 needs that metadata.version.
OLD: Final = "3."
THEMES: Final = [
    *(["general"] * 5 + ["elr"] * 4 + ["reassign"] * 2 + ["jbod"] * 2 + ["config"] * 2),
    *(["security"] * 3 + ["features"] * 3 + ["lifecycle"] * 2),
]
LONG_MS: Final = "2000000000"


class Setup:
    """The random settings of one story. `levels`: of a release that LEVELS lacks."""

    def __init__(self, release: str, seed: int | str, levels: Sequence[str] = ()) -> None:
        self.release, self.seed = release, seed
        self.random = r = random.Random(f"{release}/{seed}")
        self.theme = r.choice(THEMES)
        if release == "3.9.1" and self.theme == "elr" and r.random() < 0.5:
            self.theme = "general"
        self.length, self.broker_count = r.randint(40, 80), r.randint(3, 6)
        self.racks: list[str | None] = r.choice([[None], [None], ["a", "b"], ["a", "b", "c"], ["a", "b", None]])
        self.dir_counts = r.choice([[1], [1], [1, 2], [2, 3]]) if self.theme != "jbod" else [1, 2, 3]
        self.placement_seed = r.getrandbits(31)
        levels = levels or LEVELS[release]
        if self.theme == "features":
            self.level = r.choice(levels)
        else:
            self.level = levels[-1] if r.random() < 0.6 else r.choice(levels[len(levels) // 3 :])
        self.authorizer = self.theme == "security" or r.random() < 0.3
        self.tokens = self.theme == "security" or (self.authorizer and r.random() < 0.5)
        self.dynamic = (self.level == DYNAMIC_FROM or not self.level.startswith(OLD)) and r.random() < 0.6
        self.format_features = list(self._features(r))
        self.balance = r.random() < 0.12

    def _features(self, r: random.Random) -> Any:
        if self.level.startswith(OLD) or self.release.startswith(OLD):
            return
        if self.level != "4.0-IV0":
            elr = 1 if self.theme == "elr" and r.random() < 0.8 else r.choice([0, 1, None])
            if elr is not None:
                yield f"eligible.leader.replicas.version={elr}"
        if r.random() < 0.3:
            yield f"transaction.version={r.choice([0, 1, 2])}"
        if r.random() < 0.2:
            yield f"group.version={r.choice([0, 1])}"

    def properties(self, ports: Mapping[int, int], node_id: int = NODE) -> Json:
        """Every line of the file but log.dirs. `ports`: of all controllers, by id."""
        at = f"127.0.0.1:{ports[node_id]}"
        everywhere = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in ports.items())
        return {
            **{"process.roles": "controller", "node.id": str(node_id)},
            **(
                {"controller.quorum.bootstrap.servers": everywhere}
                if self.dynamic
                else {"controller.quorum.voters": voters}
            ),
            **{"listeners": f"CONTROLLER://{at}", "controller.listener.names": "CONTROLLER"},
            **{"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
            **{"metadata.max.idle.interval.ms": "0", "controller.quorum.append.linger.ms": "0"},
            **{"auto.leader.rebalance.enable": str(self.balance).lower()},
            **{"leader.imbalance.check.interval.seconds": "300", "broker.session.timeout.ms": str(SESSION_MS)},
            **{"broker.heartbeat.interval.ms": "2000", "connections.max.idle.ms": LONG_MS},
            **{"metadata.log.max.snapshot.interval.ms": "0"},
            **{"metadata.log.max.record.bytes.between.snapshots": LONG_MS},
            **{"num.network.threads": "1", "num.io.threads": "2"},
            **dict(self._chosen(random.Random(f"config/{self.release}/{self.seed}"))),
        }

    def _chosen(self, r: random.Random) -> Any:
        if r.random() < 0.3:
            yield "num.partitions", str(r.choice([2, 3]))
        if r.random() < 0.3:
            yield "default.replication.factor", str(r.choice([2, 3]))
        if r.random() < 0.15:
            yield "min.insync.replicas", "2"
        if r.random() < 0.12:
            yield "unclean.leader.election.enable", "true"
        if r.random() < 0.06:
            yield "delete.topic.enable", "false"
        if r.random() < 0.1:
            yield "delegation.token.max.lifetime.ms", "700000"
        if self.authorizer:
            yield "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            yield "super.users", "User:ANONYMOUS"
            if r.random() < 0.3:
                yield "allow.everyone.if.no.acl.found", "true"
        if self.tokens:
            yield "delegation.token.secret.key", "story-secret"
            yield "delegation.token.expiry.check.interval.ms", "300000"
