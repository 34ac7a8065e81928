"""The walk in which controllers come and go."""

from typing import Any, Final

from oracle.recorder.walk import Walk

OFTEN: Final = {1: 0.09, 3: 0.14}  # By how many controllers there are.
STANDBYS: Final = 0.1  # So often a standby is asked.
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
    """What it does with controllers is chosen between requests."""

    def go_on(self) -> Any:
        standbys = [i for i in self.s.up if i != self.s.active.node_id]
        if standbys and self.chance(STANDBYS):
            self.s.asks = self.r.choice(standbys)
            super().go_on()
            self.s.asks = None
            return True
        if not self.chance(OFTEN[len(self.s.machines)]):
            return super().go_on()
        self.turn()
        for _ in range(self.r.randint(0, 2)):
            getattr(self, "g_" + self.r.choice(AFTERWARDS))()
        return True

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
