"""Clients that go on while brokers, controllers and disks of a DiskCluster fail, and what must hold of all of it.

After each round all that ran runs again, every partition has its leader and its whole ISR, and each replica is where
the controller has it. At a checkpoint the producer pauses: then replicas are equal byte for byte, and what was
acknowledged is in them, once and in order. `ci/chaos-disks --help` runs it by hand.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from kcore.errors import KcoreError
from kcore.raft.membership.replicas import Address
from kcore.server.quorum_node.describe import describe_quorum
from kcore.storage.log.log_directory import FUTURE
from oracle.chaos.disk_checks import (
    check_replicas_equal,
    fullest,
    lying,
    records_in,
    unexpected,
    waiting_for_operator,
    wrong,
    wrong_leaders,
)
from oracle.chaos.disk_clients import (
    LARGE_RECORDS,
    Key,
    LiveConsumer,
    PacedProducer,
    check_found,
    create_topics,
    elect_uncleanly,
    move_replicas,
    read_all,
)
from oracle.chaos.disk_cluster import BROKERS, DIRECTORIES, Disk, DiskCluster
from oracle.chaos.disk_faults import CONTROLLER, FILE, FULL, LOST, PAUSED, SWAPPED, UNMOUNTED, Fault, Round, round_of
from oracle.chaos.kraft_kills import shown_at_failure
from oracle.chaos.kraft_registers import Violation
from oracle.kraft_clusters import Node

WHOLE_S: Final = 90.0  # Until all is whole again, on a busy machine.
NOTICED_S: Final = 15.0  # Until a broker has noticed that a directory is lost: it writes to each every five seconds.
LED_S: Final = 30.0  # Until others lead what was led there: a session ends, where the broker stopped.
POLL_S: Final = 0.2
PER_S: Final = 300  # Records, at most.
PROGRESS: Final = 20  # Records that are acknowledged after a round.
# Errors of a broker whose disk is lost.
OF_LOST: Final = (
    *("goes offline: ", "was not closed: ", "the directory of the metadata log, ", " cannot go on: "),
    *(" was not written: ", "The node goes on with its open files"),
)


@dataclass(frozen=True)
class Plan:
    """Rounds until there were so many faults; `every`: rounds between two checkpoints. `logs`: where they stay."""

    seed: int
    faults: int
    first: int = 0  # Round.
    controllers: int = 3
    mounted: bool = True
    anybody: bool = False  # Kills hit any broker.
    every: int = 10
    seconds: float = float("inf")
    logs: Path | None = None


@dataclass
class Story:
    """The events so far."""

    seed: int
    struck: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    checkpoints: int = 0
    acknowledged: int = 0
    compared: int = 0  # Records found in files, at the last checkpoint.
    moves: int = 0  # Requested moves of replicas to another directory.
    cut_short: int = 0  # Future logs that lay there after a kill -9.
    elected: int = 0  # Partitions, uncleanly, by an operator: after kills of several brokers.
    longest_s: float = 0.0  # From a round's mending to a whole cluster.

    @property
    def summary(self) -> str:
        kinds, mended = (", ".join(f"{n} {name}" for name, n in each.items()) for each in (self.struck, self.mended))
        return (
            f"seed {self.seed}: {self.struck.total()} faults in {self.rounds} rounds ({kinds}); lost disks:"
            f" {mended or 'none'}; {self.moves} moves of replicas, {self.cut_short} future logs at kills;"
            f" {self.acknowledged:,} records acknowledged; {self.checkpoints} checkpoints, at the last of which"
            f" {self.compared:,} records were found, once and in order, in three equal replicas; whole again after"
            f" {self.longest_s:.1f} s at most; {self.elected} partitions with an unclean election"
        )


class DiskChaos:
    """A cluster with its clients. Violation for what must not be."""

    def __init__(self, cluster: DiskCluster, plan: Plan, story: Story) -> None:
        self.cluster, self.plan, self.story = cluster, plan, story
        self.dice = Random(story.seed)
        bootstrap = cluster.bootstrap
        self.producer = PacedProducer("producer", bootstrap, PER_S)
        self.consumer = LiveConsumer("consumer", bootstrap)
        self._paused: tuple[Node, float] | None = None
        self._looked: dict[str, int] = {}  # How much of each log was looked at.

    @contextmanager
    def running(self) -> Iterator[None]:
        """The clients go on."""
        create_topics(self.cluster.bootstrap, lambda index: [1 + (index + shift) % 3 for shift in range(3)])
        self.until(lambda: wrong(self.cluster), "the cluster is whole", WHOLE_S)
        self.producer.start()
        self.consumer.start()
        self.until(lambda: self.producer.done < LARGE_RECORDS, "the first records", WHOLE_S)
        self.producer.go_on.set()
        try:
            yield
        finally:
            self.producer.ask_to_stop()
            self.consumer.ask_to_stop()

    def until(self, wrong_now: Callable[[], object], what: str, within_s: float) -> None:
        """Until nothing is wrong."""
        end_s = time.monotonic() + within_s
        while (found := wrong_now()) not in ("", False, None):
            self.check_clients()
            if time.monotonic() > end_s:
                raise Violation(f"in {within_s} s not: {what}: {found}")
            time.sleep(POLL_S)

    def check_clients(self) -> None:
        self.producer.check()
        self.consumer.check()

    # A round.

    def play(self, number: int) -> Round:
        """Its faults, then all is mended and looked at."""
        made = round_of(self.story.seed, number, mounted=self.plan.mounted, anybody=self.plan.anybody)
        try:
            self._check_running(may_be_down=0)
            for fault in made.faults:
                time.sleep(fault.after_s)
                self._strike(fault)
                self.story.struck[fault.kind] += 1
            self._repair(made)
            begin_s = time.monotonic()
            self.until(self._whole, "the cluster is whole", WHOLE_S)
            self.story.longest_s = max(self.story.longest_s, time.monotonic() - begin_s)
            self._progress()
            self._check_logs(made)
        except Exception as error:
            error.add_note(f"round {number} of seed {self.story.seed}: {made}")
            raise
        self.story.rounds += 1
        self.story.acknowledged = self.producer.done
        return made

    def _strike(self, fault: Fault) -> None:
        if fault.kind == CONTROLLER:
            self._restart(self._active())
            return
        node, disk = self.cluster.broker(fault.broker_id), self.cluster.disks[fault.broker_id][fault.directory]
        if fault.moves:
            self._move(fault)
        match fault.kind:
            case kind if kind in LOST:
                {FILE: disk.be_a_file, FULL: disk.fill, UNMOUNTED: disk.be_unmounted}[kind]()
            case kind if kind == PAUSED:
                node.pause()
                self._paused = node, time.monotonic() + fault.lasts_s
            case kind if kind == SWAPPED:
                self._kill(node)
                disk.replace()
                self.cluster.format_broker(fault.broker_id)
                node.start(wait=False)
            case _:
                self._restart(node)

    def _restart(self, node: Node) -> None:
        self._kill(node)
        node.start(wait=False)

    def _kill(self, node: Node) -> None:
        node.kill()
        for disk in self.cluster.disks.get(node.node_id, ()):
            if not disk.fault:
                self.story.cut_short += sum(each.name.endswith(FUTURE) for each in disk.path.iterdir())

    def _move(self, fault: Fault) -> None:
        """Replicas to the next directory each; then a moment until something else happens."""
        disks = self.cluster.disks[fault.broker_id]
        wanted = {}
        for topic, index in fault.moves:
            for at, disk in enumerate(disks):
                if not disk.fault and (disk.path / f"{topic}-{index}").is_dir():
                    wanted[topic, index] = str(disks[(at + 1) % DIRECTORIES].path)
        if wanted and move_replicas(self.cluster.broker(fault.broker_id).port, wanted):
            self.story.moves += len(wanted)
        time.sleep(fault.lasts_s)

    def _active(self) -> Node:
        controllers = self.cluster.controllers
        addresses = [Address("127.0.0.1", node.port) for node in controllers]
        asking = describe_quorum(addresses, controllers=True, timeout_s=5.0, random=self.dice)
        try:
            leader_id = asyncio.run(asking).partition.leader_id
        except (KcoreError, OSError):
            return self.dice.choice(controllers)
        return next(node for node in controllers if node.node_id == leader_id)

    # Repairs.

    def _repair(self, made: Round) -> None:
        """Resumes the paused broker; replaces or restores lost disks, and starts their broker again."""
        if self._paused is not None:
            node, until_s = self._paused
            time.sleep(max(0.0, until_s - time.monotonic()))
            node.resume()
            self._paused = None
        victim, disks = self.cluster.broker(made.victim), self.cluster.disks[made.victim]
        lost = [disk for disk in disks if disk.fault]
        self._check_running(may_be_down=made.victim if lost else 0)
        if not lost:
            return
        if made.is_noticed:
            for disk in lost:
                self._await_noticed(victim, disk)
            if not self.plan.anybody:
                self.until(self._led_elsewhere, "every partition has a leader while the disk is lost", LED_S)
                self._progress()
        if victim.is_running and not made.is_killed:
            victim.terminate(timeout_s=15.0)
        self._kill(victim)
        for disk in lost:
            self.story.mended["replaced" if made.is_replaced else "as it was"] += 1
            if made.is_replaced:
                disk.replace()
            else:
                disk.restore()
        self.cluster.format_broker(made.victim)
        victim.start(wait=False)

    def _whole(self) -> str:
        """The first deviation from a whole cluster, or "".

        After kills of several brokers it elects leaders uncleanly for the partitions that wait for an operator.
        """
        if (found := wrong(self.cluster)) and self.plan.anybody:
            with suppress(KcoreError, OSError, Violation):
                folders = lying(self.cluster)
                best = {key: fullest(folders, key) for key in waiting_for_operator(self.cluster.image())}
                for broker_id in {*best.values()}:
                    self._elect(broker_id, [key for key, each in best.items() if each == broker_id])
        return found

    def _elect(self, broker_id: int, keys: Sequence[Key]) -> None:
        """By an unclean election while no other broker is there."""
        others = [node for node in self.cluster.brokers if node.node_id != broker_id]
        for node in others:
            node.terminate(timeout_s=15.0)
        try:
            elect_uncleanly(self.cluster.broker(broker_id).address, keys)
            self.story.elected += len(keys)
        finally:
            for node in others:
                node.start(wait=False)

    def _await_noticed(self, node: Node, disk: Disk) -> None:
        """The broker that runs, or ran, has found the directory offline; or it has ended."""
        lines = (f"log directory {disk.path} goes offline", "stopping")

        def is_unknown() -> bool:
            return node.is_running and not any(each in node.log_text() for each in lines)

        self.until(is_unknown, f"{node.name} notices that {disk.path} is lost ({disk.fault})", NOTICED_S)

    def _led_elsewhere(self) -> str:
        """A partition without a leader that can lead."""
        try:
            return wrong_leaders(self.cluster.image())
        except (KcoreError, OSError) as error:
            return str(error)

    def _check_running(self, *, may_be_down: int) -> None:
        """Nobody has ended by itself; `may_be_down`: whose disk is lost."""
        for node in (*self.cluster.controllers, *self.cluster.brokers):
            if node.node_id != may_be_down and not node.is_running:
                raise Violation(f"{node.name} has ended by itself: {node.log_text()[-1500:]}")

    def _progress(self) -> None:
        """More is acknowledged, and consumed."""
        wanted = self.producer.done + PROGRESS
        self.until(lambda: self.producer.done < wanted, f"{PROGRESS} more records are acknowledged", WHOLE_S)
        self.until(lambda: self.consumer.done < wanted, f"{wanted} records are consumed", WHOLE_S)

    def _check_logs(self, made: Round) -> None:
        """The nodes' log lines of the round."""
        has_lost = any(each.kind in LOST for each in made.faults)
        for node in (*self.cluster.controllers, *self.cluster.brokers):
            data = node.log.read_bytes()
            new, self._looked[node.name] = data[self._looked.get(node.name, 0) :], len(data)
            expected = OF_LOST if has_lost and node.node_id == made.victim else ()
            if found := unexpected(new.decode(errors="replace").splitlines(), expected):
                raise Violation(f"{node.name} logs {found[:3]}")

    # A checkpoint.

    def checkpoint(self) -> None:
        """Nobody writes: replicas are equal, and have what was acknowledged, which a consumer has got as well."""
        self.producer.go_on.clear()
        self.until(lambda: not self.producer.is_quiet(), "every record is answered", WHOLE_S)
        self.until(lambda: wrong(self.cluster), "the cluster is whole", WHOLE_S)
        self.until(self._differ, "all replicas are equal", WHOLE_S)
        folders = lying(self.cluster)
        found = {place.key: records_in(folder) for place, folder in folders.items() if place.broker_id == BROKERS[0]}
        acknowledged = self.producer.acknowledged
        check_found(found, acknowledged)
        count = sum(map(len, found.values()))
        self.until(lambda: self.consumer.done < count, f"{count} records are consumed", WHOLE_S)
        if self.consumer.found != found:
            more = [key for key in found if self.consumer.found[key] != found[key]]
            raise Violation(f"the consumer has got something else than what is in the logs of {more}")
        self.story.compared, self.story.acknowledged = count, len(acknowledged)
        self.story.checkpoints += 1
        self.producer.go_on.set()

    def _differ(self) -> str:
        """A follower may not have all yet."""
        try:
            check_replicas_equal(lying(self.cluster))
        except (Violation, KcoreError, OSError) as error:
            return str(error)
        return ""

    def end(self) -> None:
        """The last checkpoint, and a new consumer that reads all from the beginning."""
        self.checkpoint()
        self.producer.stop()
        self.checkpoint()
        ends = {key: records[-1].offset + 1 if records else 0 for key, records in self.consumer.found.items()}
        found = read_all(self.cluster.bootstrap, ends)
        check_found(found, self.producer.acknowledged)
        self.consumer.stop()


def run(plan: Plan, story: Story, say: Callable[[str], None] = lambda _: None) -> None:
    """The whole; a Violation tells what went wrong, and the ends of the nodes' logs are printed then."""
    end_s = time.monotonic() + plan.seconds
    with DiskCluster(controllers=plan.controllers, mounted=plan.mounted) as cluster:
        chaos = DiskChaos(cluster, plan, story)
        try:
            with shown_at_failure([*cluster.controllers, *cluster.brokers]), chaos.running():
                while story.struck.total() < plan.faults and time.monotonic() < end_s:
                    begin_s, made = time.monotonic(), chaos.play(plan.first + story.rounds)
                    say(
                        f"round {made.number}: {made}. Whole after {time.monotonic() - begin_s:.1f} s;"
                        f" {story.struck.total()} faults, {story.acknowledged:,} records acknowledged"
                    )
                    if story.rounds % plan.every == 0:
                        chaos.checkpoint()
                        say(f"checkpoint: {story.compared:,} records, once and in order, in three equal replicas")
                chaos.end()
        finally:
            if plan.logs is not None:
                cluster.keep_logs(plan.logs)
