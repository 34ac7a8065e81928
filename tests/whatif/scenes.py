"""Random clusters with their tables, and the twins' decisions for them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kcore.replication.kraft_changes import KraftSettings, Setting
from kcore.replication.levels import level_of
from kcore.whatif.cluster import Cluster
from reference import election, partition_change
from replication.kraft_tables import Partition, brokers_of, kraft_table, settings_of
from replication.random_partitions import IDS, Dice
from replication.small_tables import table_of


class KraftScene:
    """A random cluster by the rules of some KRaft release."""

    def __init__(self, seed: int) -> None:
        dice = Dice(seed)
        self.partitions = dice.partitions(IDS, 4, 70)
        self.state = dice.cluster(IDS)
        self.rule = dice.rule()
        brokers = brokers_of(IDS, self.state["active"], self.state["directories"])
        self.live = {*brokers.ids[brokers.live].tolist()}
        table = kraft_table(self.partitions, brokers)
        settings = settings_of(self.partitions, self.rule)
        self.cluster = Cluster(table, settings.level, settings)

    def decide(self, p: Partition, gone: set[int]) -> Partition:
        """The state after handleBrokerFenced."""
        if not gone & {*p["isr"]}:
            return p
        record = partition_change.change(p, self.state | {"leaving": gone}, self.rule, "configured")
        return partition_change.after(p, record)

    def without_directories(self, brokers: set[int], directories: dict[int, int]) -> list[int]:
        """The other brokers that list directories and lose all of them."""
        listed = self.state["directories"]
        return [each for each in IDS if each not in brokers and listed.get(each) and {*listed[each]} <= {*directories}]

    def decide_in_turn(self, p: Partition, brokers: Iterable[int], directories: dict[int, int]) -> Partition:
        """The state after handleBrokerFenced for each broker, and handleDirectoriesOffline for each other owner."""
        state = self.state | {"active": {*self.state["active"]}, "directories": {**self.state["directories"]}}
        for broker in brokers:
            p = self._decide_one(p, state, broker)
            state["active"].discard(broker)
        for owner in dict.fromkeys(each for each in directories.values() if each not in {*brokers}):
            lost = {each for each, broker in directories.items() if broker == owner}
            if any(one == owner and place in lost for one, place in zip(p["replicas"], p["directories"], strict=True)):
                p = self._decide_one(p, state, owner)
            state["directories"][owner] = [each for each in state["directories"][owner] if each not in lost]
        return p

    def _decide_one(self, p: Partition, state: dict[str, Any], broker: int) -> Partition:
        if broker not in p["isr"]:
            return p
        record = partition_change.change(p, state | {"leaving": {broker}}, self.rule, "configured")
        after, place_of = partition_change.after(p, record), dict(zip(p["replicas"], p["directories"], strict=True))
        return after | {"directories": [place_of[each] for each in after["replicas"]]}


class ZooKeeperScene:
    """A random cluster of ZooKeeper mode. One broker shuts down."""

    def __init__(self, seed: int) -> None:
        dice = Dice(seed)
        self.partitions = [
            p | {"elr": [], "removing": [], "adding": [], "directories": [0] * len(p["replicas"])}
            for p in dice.partitions(IDS, 4, 70)
        ]
        self.live, self.shutting = {b for b in IDS if dice.chance(0.8)}, {IDS[seed % len(IDS)]}
        table = table_of(self.partitions, IDS, self.live, self.shutting)
        unclean = np.array([p["unclean"] for p in self.partitions], np.uint8)
        min_isr = np.array([p["min_isr"] for p in self.partitions], np.int32)
        level = level_of("3.9.1")
        settings = KraftSettings(level, unclean=Setting.by_partition(unclean), min_isr=Setting.by_partition(min_isr))
        self.cluster = Cluster(table, level, settings)

    def without_directories(self, brokers: set[int], directories: dict[int, int]) -> list[int]:
        """No broker: in ZooKeeper mode the controller knows no directories."""
        return []

    def decide(self, p: Partition, gone: set[int]) -> Partition:
        """The state after onBrokerFailure."""
        changed = election.broker_failure(p, gone, self.live, self.shutting, p["unclean"], True)
        return p if changed is None else changed


def healthy(seed: int, brokers: int, partitions: int, racks: int | None = None) -> tuple[Cluster, list[Partition]]:
    """A cluster in which all replicas are in sync, with 1 to 3 replicas, and its partitions."""
    random = np.random.default_rng(seed)
    found: list[Partition] = []
    for index in range(partitions):
        replicas = random.permutation(brokers)[: random.integers(1, 4)].tolist()
        if racks:
            replicas = list({broker % racks: broker for broker in replicas}.values())
        found.append(_partition(index, replicas, int(random.integers(1, 3))))
    table = kraft_table(found, brokers_of(range(brokers), {*range(brokers)}, {}))
    settings = KraftSettings(
        level_of("4.3.1"), min_isr=Setting.by_partition(np.array([p["min_isr"] for p in found], np.int32))
    )
    return Cluster(table, level_of("4.3.1"), settings), found


def _partition(index: int, replicas: list[int], min_isr: int) -> Partition:
    lists: dict[str, Any] = {name: [] for name in ("elr", "last_known_elr", "removing", "adding")}
    numbers = dict.fromkeys(("leader_epoch", "partition_epoch", "recovery", "topic"), 0)
    return {
        **{"replicas": replicas, "isr": replicas, "leader": replicas[0], "directories": [0] * len(replicas)},
        **{"index": index, "min_isr": min_isr, "unclean": False, "factor": len(replicas)},
        **lists,
        **numbers,
    }
