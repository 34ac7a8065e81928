"""The plan of `kcore bench designs`: the size of the cluster and the numbers of repetitions, writes and commands."""

from dataclasses import dataclass

from kcore.constants import MAX_BROKERS
from kcore.errors import PlanError
from kcore.measure.workloads.generate import generate
from kcore.metadata.table.partition_table import PartitionTable

REPLICATION_FACTOR = 3
PARTITIONS_PER_TOPIC = 100
MAX_PARTITIONS = 200_000  # In v1 and v2 each watch takes one request.
MAX_SESSIONS = 200  # One session per broker.


@dataclass(frozen=True, slots=True)
class DesignsPlan:
    """One size of cluster, and the numbers of repetitions, writes and commands."""

    partitions: int = 10_000
    brokers: int = 20
    repeat: int = 1
    seed: int = 1
    writes: int = 10_000  # State writes that each way of writing measures.
    commands: int = 300  # Commands that each way of sending measures.

    def check(self) -> None:
        """Raises PlanError for a number out of its bounds."""
        most_brokers = min(MAX_SESSIONS, MAX_BROKERS)
        bounds = {
            "partitions": (self.partitions, self.brokers, MAX_PARTITIONS),
            "brokers": (self.brokers, REPLICATION_FACTOR, most_brokers),
            "repeat": (self.repeat, 1, 1_000),
            "seed": (self.seed, 0, 2**32),
        }
        for name, (value, low, high) in bounds.items():
            if not low <= value <= high:
                raise PlanError(f"--{name} must be from {low} to {high}, not {value}")

    def table(self) -> PartitionTable:
        """Generates the healthy cluster of the plan."""
        topics = -(-self.partitions // PARTITIONS_PER_TOPIC)
        return generate(self.partitions, self.brokers, REPLICATION_FACTOR, topics, self.seed)


QUICK = DesignsPlan(partitions=200, brokers=5, repeat=1, writes=1_000, commands=30)
