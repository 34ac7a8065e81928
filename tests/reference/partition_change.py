"""The slow twin of `kcore._ext.elections.partition_change`: plain dicts, written from Kafka's sources.

A partition is a dict of PartitionRegistration's fields, brokers as ids, directories as numbers (0 MIGRATING, 1
UNASSIGNED, 2 LOST). It also has `min_isr`, `unclean` and `factor`, the replication factor of its topic's partition 0. A
cluster is a dict of `active` brokers, the `directories` that each registration lists, and the brokers of the event:
`leaving`, `crashed`, `arriving`. A rule is a dict of `release`, `version` (a tuple), `elr`, `last_known_leader` and
`migration`. Arguments are never changed.
"""

from typing import Any

Partition = dict[str, Any]
LISTS = ("replicas", "directories", "isr", "removing", "adding", "elr", "last_known_elr")


def hash_set(members: list[int]) -> list[int]:
    """java.util.HashSet's order, for few members with small ids."""
    distinct = list(dict.fromkeys(members))
    buckets = 16
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2
    return sorted(distinct, key=lambda member: (member ^ member >> 16) % buckets)


def is_online(broker: int, directory: int, cluster: dict[str, Any]) -> bool:
    """DirectoryId.isOnline."""
    if directory in (0, 1):
        return True
    if directory == 2:
        return False
    listed = cluster["directories"].get(broker, [])
    return not listed or directory in listed


def may_lead(broker: int, p: Partition, cluster: dict[str, Any], *, stranger: bool) -> bool:
    """generateLeaderAndIsrUpdates' predicate in a LeaderAcceptor; `stranger`: of a broker without a replica.

    Kafka's LeaderAcceptor throws for one.
    """
    if broker in cluster["leaving"] or broker in cluster["crashed"]:
        return False
    if broker not in cluster["active"] and broker not in cluster["arriving"]:
        return False
    if broker not in p["replicas"]:
        return stranger
    return is_online(broker, p["directories"][p["replicas"].index(broker)], cluster)


class Builder:
    """PartitionChangeBuilder, with its fields."""

    def __init__(self, p: Partition, cluster: dict[str, Any], rule: dict[str, Any], election: str) -> None:
        self.p, self.cluster, self.rule, self.election = p, cluster, rule, election
        gone = {*cluster["leaving"], *cluster["crashed"]}
        self.isr = [member for member in p["isr"] if member not in gone]
        self.replicas, self.removing, self.adding = p["replicas"], p["removing"], p["adding"]
        self.elr, self.last_known_elr = p["elr"], p["last_known_elr"]
        self.recovery = p["recovery"]
        self.directories = dict(zip(p["replicas"], p["directories"], strict=True))
        self.record: dict[str, Any] = {}

    def complete_reassignment(self) -> None:
        if not self.removing and not self.adding:
            return
        isr = [member for member in self.isr if member not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        if self.removing and (not isr or not replicas):
            return
        if self.rule["release"] in ("3.9.1", "4.1.2"):
            if any(replica not in isr for replica in replicas):
                return
        else:
            if any(replica not in isr for replica in self.adding):
                return
            if len(self.adding) < len(self.removing) and any(replica not in isr for replica in replicas):
                return
        self.isr, self.replicas, self.removing, self.adding = isr, replicas, [], []

    def populate_elr(self) -> None:
        if not self.rule["elr"]:
            return
        if len(self.isr) >= min(self.p["min_isr"], self.p["factor"]):
            self.elr, self.last_known_elr = [], []
            return
        candidates = [*self.p["elr"], *self.p["isr"]]
        known = [*candidates, *self.p["last_known_elr"]]
        crashed = self.cluster["crashed"]
        self.elr = [m for m in hash_set(candidates) if m not in self.isr and m not in crashed]
        self.last_known_elr = [m for m in hash_set(known) if m not in self.isr and m not in self.elr]

    def is_valid(self, replica: int, *, stranger: bool) -> bool:
        among = replica in self.isr or (not self.isr and replica in self.elr)
        return among and may_lead(replica, self.p, self.cluster, stranger=stranger)

    def elect(self) -> tuple[int, bool]:
        leader = self.p["leader"]
        if self.election == "preferred" and self.is_valid(self.replicas[0], stranger=False):
            return self.replicas[0], False
        if self.is_valid(leader, stranger=True):
            return leader, False
        for replica in self.replicas:
            if self.is_valid(replica, stranger=False):
                return replica, False
        last = self.p["last_known_elr"]
        if self.rule["elr"] and self.rule["last_known_leader"] and not self.isr and not self.elr and len(last) == 1:
            dead_too = self.rule["release"] == "3.9.1" and last[0] in self.p["replicas"]
            if dead_too or may_lead(last[0], self.p, self.cluster, stranger=False):
                return last[0], True
        if self.election == "unclean":
            for replica in self.replicas:
                if may_lead(replica, self.p, self.cluster, stranger=True):
                    return replica, True
        return -1, False

    def try_election(self) -> None:
        leader, unclean = self.elect()
        if leader == self.p["leader"]:
            return
        if leader in self.elr:
            self.isr = [leader]
            self.elr = [member for member in self.elr if member != leader]
        self.record["leader"] = leader
        if unclean:
            self.record["isr"] = [leader]
            if self.p["recovery"] != 1 and self.rule["version"] >= (3, 2, 0):
                self.record["recovery"] = 1

    def update_elr(self) -> None:
        if "isr" in self.record or not self.rule["elr"]:
            self.elr, self.last_known_elr = [], []
        if self.elr != self.p["elr"]:
            self.record["elr"] = self.elr
        if not self.rule["last_known_leader"] and self.last_known_elr != self.p["last_known_elr"]:
            self.record["last_known_elr"] = self.last_known_elr

    def update_last_known_leader(self) -> None:
        if not self.rule["last_known_leader"] or not self.rule["elr"]:
            return
        known, leader, named = self.p["last_known_elr"], self.p["leader"], self.record.get("leader", -2)
        if self.rule["release"] == "3.9.1":
            if self.record.get("isr") == [] and known != [leader]:
                self.record["last_known_elr"] = [leader]
            elif (named >= 0 or (leader != -1 and named != -1)) and known:
                self.record["last_known_elr"] = []
        elif named == -1 and not known:
            self.record["last_known_elr"] = [leader]
        elif named >= 0 and known:
            self.record["last_known_elr"] = []

    def set_assignment(self, defaults: dict[int, int]) -> None:
        if self.replicas and self.rule["version"] >= (3, 7, 2):
            directories = [self.directories.get(replica, defaults.get(replica, 0)) for replica in self.replicas]
            if directories != self.p["directories"]:
                self.record["directories"] = directories
        for name in ("replicas", "removing", "adding"):
            if getattr(self, name) != self.p[name] and (name != "replicas" or self.replicas):
                self.record[name] = getattr(self, name)

    def build(self, defaults: dict[int, int]) -> dict[str, Any]:
        self.complete_reassignment()
        self.populate_elr()
        self.try_election()
        if "leader" not in self.record and any(replica not in self.replicas for replica in self.p["replicas"]):
            self.record["leader"] = self.p["leader"]
        self.update_elr()
        if "isr" not in self.record and (self.isr or self.rule["elr"]) and self.isr != self.p["isr"]:
            self.record["isr"] = self.isr
        bumps = self.rule["version"] < (3, 6, 0) or self.rule["migration"]
        isr = self.record.get("isr", self.p["isr"])
        if bumps and "leader" not in self.record and any(member not in isr for member in self.p["isr"]):
            self.record["leader"] = self.p["leader"]
        self.update_last_known_leader()
        self.set_assignment(defaults)
        if self.recovery != self.p["recovery"]:
            self.record["recovery"] = self.recovery
        return self.record


def change(
    p: Partition,
    cluster: dict[str, Any],
    rule: dict[str, Any],
    election: str,
    targets: dict[str, Any] | None = None,
    defaults: dict[int, int] | None = None,
) -> dict[str, Any]:
    """The fields of the PartitionChangeRecord; empty where nothing changes. `targets` are fields of the builder."""
    builder = Builder(p, cluster, rule, "unclean" if election == "configured" and p["unclean"] else election)
    for name, target in (targets or {}).items():
        if name == "directory":
            builder.directories |= dict([target])
        else:
            setattr(builder, name, target)
    return builder.build(defaults or {})


def after(p: Partition, record: dict[str, Any]) -> Partition:
    """PartitionRegistration.merge."""
    new = p | record | {"partition_epoch": p["partition_epoch"] + 1}
    new["leader_epoch"] = p["leader_epoch"] + int("leader" in record)
    if not any(new["directories"]):
        new["directories"] = [0] * len(new["replicas"])
    return new
