"""The plan of a storm: scenarios, targets, and sizes as all combinations or pairs of brokers and partitions."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import product
from random import Random
from typing import Any, Final

from kcore.constants import MAX_BROKERS
from kcore.errors import PlanError
from kcore.measure.processes.target import KAFKA, Target, parse_targets
from kcore.measure.storm import targets as storm_targets
from kcore.measure.storm.kraft.scenarios import ALL, LIMITS, SCENARIOS
from kcore.measure.storm.run_security import SECURE, read_client
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS
from kcore.net.request_context import PLAINTEXT
from kcore.suggestions import did_you_mean

METADATA: Final = ("full", "count")
# Scenarios that brokers with --metadata count cannot run.
NEEDS_IMAGE: Final = ("preferred-election", "isr-storm", "reassign", "assign", "dir-lost", *LIMITS)
FIRST: Final = ("register", "create")  # Without brokers and partitions there is nothing to storm.
MOST_SECONDS: Final = 600  # The longest steady state; a scenario ends after 15 minutes.
MOST_REPETITIONS: Final = 1_000
MOST_SEED: Final = 2**63 - 1
MOST_SESSION_MS: Final = 2**31 - 1
USUAL_BROKERS: Final = 1_000  # Time-outs are longer for clusters with more brokers, or more partitions.
USUAL_PARTITIONS: Final = 1_000_000
SECURED_PATIENCE: Final = 3.0  # TLS handshakes of all brokers at once may take minutes of a controller's CPU time.
MOST_PARTITIONS: Final = 10_000_000
MOST_A_TOPIC: Final = 9_899  # With the topic's own record, one CreateTopics has 9,900 records at most.


@dataclass(frozen=True, slots=True)
class Cell:
    """One cluster: a target that is grown to a size, and all scenarios on it."""

    target: Target
    brokers: int
    partitions: int
    repetition: int

    @property
    def patience(self) -> float:
        """The factor of time-outs; 1 for a plaintext cluster of a usual size."""
        size = max(1.0, self.brokers / USUAL_BROKERS, self.partitions / USUAL_PARTITIONS)
        return size * (1 if self.target.security == PLAINTEXT else SECURED_PATIENCE)

    def __str__(self) -> str:
        again = f", repetition {self.repetition + 1}" if self.repetition else ""
        return f"{self.target.name}, {self.brokers:,} brokers, {self.partitions:,} partitions{again}"


@dataclass(frozen=True, slots=True)
class StormPlan:
    """The options of `kcore storm`. Empty `scenarios` means all that a target allows, without LIMITS."""

    targets: tuple[str, ...] = (KAFKA,)
    jvm: tuple[str, ...] = ()  # Options of the JVMs of targets, as `parse_targets` takes them.
    properties: tuple[str, ...] = ()
    java: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    brokers: tuple[int, ...] = (20,)
    partitions: tuple[int, ...] = (10_000,)
    paired: bool = False  # Combine the first of `brokers` with the first of `partitions` and so on, not each with each.
    partitions_per_topic: int = 100
    replication_factor: int = 3
    racks: int = 3
    controllers: int = 1
    heap: str = "2g"
    metadata: str = "full"  # "count": hollow brokers only count the records of the metadata log.
    heartbeat_s: float = 2.0
    seconds: float = 10.0  # of the steady state
    lost_share: float = 0.5  # of a broker's replicas: those in the log directory that it loses
    lost_replicas: int = 0  # their number, if not 0
    repeat: int = 1
    seed: int = 1
    master: str = ""  # The master of Spark. If it is empty, the brokers run in this process.
    session_timeout_ms: int = 0  # The session time-out of running controllers. 0: the storm asks them for it.
    pids: tuple[int, ...] = ()  # Process ids of running controllers. If empty, they are found by their ports.
    profile: bool = False  # Samplers take CPU time, so compare only with runs that have them.
    command_config: str = ""  # The client's TLS and SASL settings, for controllers or brokers that run already.
    cluster: str = ""  # The source of a real cluster, whose brokers and topics the storm has; empty: generated ones.
    secure: str = ""  # The security protocol with which each started quorum runs once more; empty: none.

    def check(self) -> None:
        """Raises a PlanError or a TargetError for the first impossible option."""
        _must(1 <= self.repeat <= MOST_REPETITIONS, f"--repeat {self.repeat} is not from 1 to {MOST_REPETITIONS:,}")
        counts = len(self.brokers), len(self.partitions)
        _must(not self.paired or counts[0] == counts[1], "--paired needs as many --brokers as --partitions, and has "
              f"{counts[0]} and {counts[1]}")  # fmt: skip
        self.cells()
        known = dict.fromkeys([*ALL, *ZK_SCENARIOS])
        for name in self.scenarios:
            others = f"`kcore storm --list` names them: {', '.join(known)}"
            _must(name in known, f"no scenario {name!r}{did_you_mean(name, known, others)}")
        _must(bool(self.targets), "name a --target")
        twice = next((pid for at, pid in enumerate(self.pids) if pid in self.pids[:at]), None)
        _must(twice is None, f"--pid {twice} is given twice: leave one out")
        for target in self.parsed():
            _must(bool(self.scenarios_of(target)), f"nothing is left to run: {'; '.join(self.left_out())}")
            one = not target.in_zookeeper or (self.controllers == 1 and not self.master)
            _must(not (self.profile and target.addresses), f"--profile: kcore does not start the controllers at "
                  f"{target.text}; give --target {KAFKA} or kcore-kraft")  # fmt: skip
            _must(one, f"--target {target.name} has one controller, and its brokers run in this process: leave out "
                  "--controllers and --master")  # fmt: skip
        self._check_running()
        self._check_security()
        least = self.replication_factor
        _must(1 <= least <= MAX_BROKERS, f"--replication-factor {least} is not from 1 to {MAX_BROKERS}")
        for count in self.brokers:
            _must(least <= count <= MAX_BROKERS, f"--brokers {count} is not from {least}, the replicas of a partition, "
                  f"to {MAX_BROKERS}")  # fmt: skip
        for count in self.partitions:
            _must(1 <= count <= MOST_PARTITIONS, f"--partitions {count} is not from 1 to {MOST_PARTITIONS}")
        per_topic = self.partitions_per_topic
        _must(
            1 <= per_topic <= MOST_A_TOPIC,
            f"--partitions-per-topic {per_topic} is not from 1 to {MOST_A_TOPIC}: "
            "a controller refuses a request of more than 10,000 records as a whole",
        )
        _must(0 <= self.racks <= min(self.brokers), f"--racks {self.racks} is not from 0 to the smallest --brokers")
        _must(self.metadata in METADATA, f"--metadata {self.metadata} is neither full nor count")
        _must(0.05 <= self.heartbeat_s <= 8, f"--heartbeat-s {self.heartbeat_s:g} is not from 0.05 to 8, within a "
              "session of 9 s")  # fmt: skip
        _must(0 < self.seconds <= MOST_SECONDS, f"--seconds {self.seconds:g} is not from 0 to {MOST_SECONDS}")
        _must(0 < self.lost_share <= 1, f"--lost-share {self.lost_share:g} is not from 0 to 1")
        held = min(partitions * self.replication_factor // brokers for brokers, partitions in self.sizes())
        _must(0 <= self.lost_replicas <= held, f"--lost-replicas {self.lost_replicas} is not from 0 to {held:,}, the "
              "fewest replicas of a broker at a size of this plan")  # fmt: skip
        _must(0 <= self.seed <= MOST_SEED, f"--seed {self.seed} is not from 0 to {MOST_SEED}")
        check_processes(self.controllers, self.heap)

    def _check_running(self) -> None:
        """Checks the options for controllers that run already."""
        targets = self.parsed()
        running = [target for target in targets if target.addresses]
        _must(self.controllers == 1 or len(running) < len(targets), f"--controllers {self.controllers} is for "
              "controllers that the run starts, and these run already: leave it out")  # fmt: skip
        for option, value in (("--session-timeout", self.session_timeout_ms), ("--pid", len(self.pids))):
            _must(not value or bool(running), f"{option} is for controllers that run already: --target HOST:PORT")
        _must(not self.pids or len(running) == 1, "--pid needs exactly one --target HOST:PORT")
        _must(0 <= self.session_timeout_ms <= MOST_SESSION_MS, f"--session-timeout {self.session_timeout_ms} is not "
              f"from 1 to {MOST_SESSION_MS:,} ms")  # fmt: skip
        _must(all(pid > 0 for pid in self.pids), f"--pid {min(self.pids, default=1)} is not a process id")

    def _check_security(self) -> None:
        """Checks --secure and the file of --command-config."""
        targets = self.parsed()
        _must(not self.secure or self.secure in SECURE, f"--secure-with {self.secure} is not one of "
              f"{', '.join(SECURE)}")  # fmt: skip
        _must(not self.secure or any(target.can_be_secured for target in targets), "--secure is for KRaft controllers "
              "that the run starts: --target kafka-4.4.0 or kcore-kraft")  # fmt: skip
        runs = any(target.addresses for target in targets)
        _must(not self.command_config or runs or bool(self.cluster), "--command-config is for controllers that run "
              "already: --target HOST:PORT, or for --cluster HOST:PORT")  # fmt: skip

    def parsed(self) -> list[Target]:
        """The targets with their options; after each started quorum, with `secure`, the same quorum with that protocol.

        TargetError if a target is invalid, PlanError for the file of --command-config.
        """
        found, protocol = [], read_client(self.command_config).protocol
        for target in parse_targets(self.targets, jvm=self.jvm, properties=self.properties, java=self.java):
            found.append(replace(target, security=protocol) if target.addresses else target)
            if self.secure and target.can_be_secured:
                found.append(target.secured(self.secure))
        return found

    def sizes(self) -> list[tuple[int, int]]:
        """The sizes in order, each as numbers of brokers and partitions."""
        counts = self.brokers, self.partitions
        return list(dict.fromkeys(zip(*counts, strict=True) if self.paired else product(*counts)))

    def cells(self) -> list[Cell]:
        """The cells in the order in which they run: by repetition, then by size, then by target."""
        each = product(range(self.repeat), self.sizes(), self.parsed())
        return [Cell(target, brokers, partitions, nth) for nth, (brokers, partitions), target in each]

    def scenarios_of(self, target: Target) -> list[str]:
        """The scenarios that run on the target, in order: the requested ones that the target allows.

        On a KRaft target register and create always come first.
        """
        if target.in_zookeeper:
            return [name for name in ZK_SCENARIOS if name in (self.scenarios or ZK_SCENARIOS)]
        wanted = self.scenarios or tuple(SCENARIOS)
        return [name for name in ALL if name in FIRST or (name in wanted and not self._why_not(name, target))]

    def dice(self, repetition: int, scenario: str) -> Random:
        """The random source for the choices of one scenario, the same for every target of a repetition."""
        return Random(f"{self.seed} {repetition} {scenario}")

    def left_out(self) -> list[str]:
        """The requested scenarios that will not run, with the reasons."""
        return [f"{name} on {target.name}: {why}" for target in self.parsed() for name in self._wanted(target)
                if (why := self._why_not(name, target))]  # fmt: skip

    def _wanted(self, target: Target) -> Iterable[str]:
        return self.scenarios or (ZK_SCENARIOS if target.in_zookeeper else SCENARIOS)

    def _why_not(self, name: str, target: Target) -> str:
        """Why the scenario cannot run on that target; empty if it can."""
        if self.metadata == "count" and name in NEEDS_IMAGE and not target.in_zookeeper:
            return "its brokers must know the partitions: --metadata full"
        return storm_targets.left_out(target, name, self.controllers)

    def to_toml(self) -> str:
        """The plan as TOML, with a line for each option."""
        return "[storm]\n" + "".join(f"{each.name} = {_toml(getattr(self, each.name))}\n" for each in fields(self))


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def check_processes(controllers: int, heap: str) -> None:
    """PlanError for a number of controllers, or a heap, that no target can be started with."""
    _must(controllers in (1, 3), f"--controllers {controllers} is neither 1 nor 3")
    _must(heap[:-1].isdecimal() and heap[-1:] in "kmgKMG", f"--heap {heap!r} is no size such as 2g")


def _must(so: bool, otherwise: str) -> None:
    if not so:
        raise PlanError(otherwise)
