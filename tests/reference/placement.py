"""Placement in plain Python, one sentence a line: the slow twins of `kcore._ext.elections.placement`."""

from kcore.replication.java_random import JavaRandom


def article(brokers: list[int], partitions: int, replication_factor: int) -> list[list[int]]:
    """Replica j of partition i goes to broker (i + j) mod n."""
    return [[brokers[(i + j) % len(brokers)] for j in range(replication_factor)] for i in range(partitions)]


def alternate_racks(rack_of: dict[int, str]) -> list[int]:
    """Deal the brokers of every rack, sorted, one rack after the other until none is left."""
    hands = [sorted(broker for broker in rack_of if rack_of[broker] == rack) for rack in sorted(set(rack_of.values()))]
    dealt = []
    while any(hands):
        dealt += [hand.pop(0) for hand in hands if hand]
    return dealt


def kafka_39(
    brokers: list[int], rack_of: dict[int, str], partitions: int, factor: int, start: int, shift: int, first_id: int
) -> list[list[int]]:
    """AdminUtils.assignReplicasToBrokers; `brokers` are in the order to go round, `rack_of` is empty without racks."""
    racks = set(rack_of.values()) or {None}
    placed = []
    for partition in range(first_id, first_id + partitions):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        first = (partition + start) % len(brokers)
        replicas = [brokers[first]]
        k = 0
        while len(replicas) < factor:
            distance = 1 + (shift * len(racks) + k) % (len(brokers) - 1)
            candidate = brokers[(first + distance) % len(brokers)]
            taken = {rack_of.get(replica) for replica in replicas}
            if candidate not in replicas and (taken == racks or rack_of.get(candidate) not in taken):
                replicas.append(candidate)
            k += 1
        placed.append(replicas)
    return placed


class BrokerList:
    """Brokers of one rack, all fenced or all unfenced; each epoch visits them once, from one further on."""

    def __init__(self, brokers: list[int]) -> None:
        self.brokers, self.offset, self.taken, self.epoch = sorted(brokers), 0, 0, 0

    def draw_offset(self, random: JavaRandom) -> None:
        if self.brokers:
            self.offset = random.next_int(len(self.brokers))

    def next(self, epoch: int) -> int | None:
        if not self.brokers:
            return None
        if self.epoch != epoch:
            self.epoch, self.taken, self.offset = epoch, 0, (self.offset + 1) % len(self.brokers)
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.taken - 1 + self.offset) % len(self.brokers)]


def striped(
    brokers: list[int],
    racks: list[str | None],
    fenced: list[bool],
    hashed: list[str | None],
    partitions: int,
    factor: int,
    random: JavaRandom,
) -> list[list[int]]:
    """StripedReplicaPlacer.place; `hashed` are the rack names in the order of Java's map."""

    def members(rack: str | None, is_fenced: bool) -> BrokerList:
        return BrokerList([b for b, r, f in zip(brokers, racks, fenced, strict=True) if r == rack and f == is_fenced])

    lists = {rack: (members(rack, True), members(rack, False)) for rack in hashed}
    for rack in hashed:
        for either in lists[rack]:
            either.draw_offset(random)
    order = sorted(hashed, key=lambda rack: (rack is not None, rack or ""))
    offset, epoch, unfenced = random.next_int(len(order)), 0, fenced.count(False)
    placed = []
    for _ in range(partitions):
        if epoch == unfenced and unfenced > 1:
            random.shuffle(order)
            for rack in hashed:
                for either in lists[rack]:
                    random.shuffle(either.brokers)
            epoch = 0
        turn = [order[(offset + i) % len(order)] for i in range(len(order))]
        leader_rack, leader = next((r, b) for r in turn if (b := lists[r][1].next(epoch)) is not None)
        replicas, i, skip = [leader], 0, True
        while len(replicas) < factor:
            rack = turn[i % len(turn)]
            i += 1
            if rack == leader_rack and skip:
                skip = False
                continue
            broker = lists[rack][1].next(epoch)
            if broker is None:
                broker = lists[rack][0].next(epoch)
            if broker is not None:
                replicas.append(broker)
        placed.append(replicas)
        offset, epoch = (offset + 1) % len(order), epoch + 1
    return placed
