"""Stories in which controllers stop, are killed, start again on their disks, write snapshots, and give up leadership.

Their steps have kinds beside "request" and "advance":
- "stop": `node` ends, `how` is "stop" or "kill" (SIGKILL).
- "start": it starts on its disk, with `config` in place of its properties and the dice `placementSeed`. `leftover`: a
  batch (`leftoverData`: its bytes) that was put behind its log before, as by a leader that ends in a transaction.
- "snapshot": `node` writes a `snapshot` of what is committed: its `offset`, `epoch` and `records`.
- "resign": `node` leads, and gives up its epoch.
A request with a `node` went to that standby.
Each has the id of the `leader` at its end (none while there is none), as have requests over which one renounced.
The story has `nodes`, each with `controllerId`, `directoryId`, `port` and `config`.
"""

import base64
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.kraft.recorded.story_wire import Json, batches_of
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.metadata_version import MetadataVersion
from kcore.schema.metadata_records_log import BeginTransactionRecord, NoOpRecord
from kcore.schema.metadata_records_topics import TopicRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_values
from recorder.machines import IDS, Machine
from recorder.real_controller import Connection
from recorder.settings import Setup
from recorder.story import LATEST_S, Story
from recorder.walk_turns import Turns

ELECTED_S: Final = 60.0


class TurnsStory(Story):
    """A story of one controller, or of a quorum. It sends requests to the controller that leads."""

    walk = Turns

    def __init__(self, setup: Setup, ports: Sequence[int], machines: Sequence[Machine]) -> None:
        super().__init__(setup, ports[0], machines[0].jvm, machines[0].disk)
        self.machines = {each.node_id: each for each in machines}
        for machine, port in zip(machines, ports, strict=True):
            machine.port = port
            machine.directory_id = self.directory_id if machine is machines[0] else self._uuid()
        self.active = machines[0]
        self._clock_ms = 0
        self.asks: int | None = None  # The standby that the next requests go to.

    @property
    def up(self) -> list[int]:
        """The controllers that run."""
        return [node_id for node_id, each in self.machines.items() if each.is_up]

    def _end(self) -> None:
        up = [self.machines[each] for each in self.up]
        for each in up:
            each.begin_stop()
        for each in up:
            each.end_stop()

    def _launch(self, properties: Json) -> None:
        machines = self.machines.values()
        ports = {each.node_id: each.port for each in machines}
        voters = ",".join(f"{each.node_id}@127.0.0.1:{each.port}:{each.directory_id}" for each in machines)
        for k, each in enumerate(machines):
            each.properties = self.setup.properties(ports, each.node_id)
            properties.update(each.properties if k == 0 else {})
            each.format(self.setup, self.cluster_id, voters)
        for each in machines:
            each.begin_start(self.setup.placement_seed, 0)
        for each in machines:
            each.end_start()
        self._find_leader(reads_on=False)

    def _head(self) -> Json:
        nodes = [
            {
                **{"controllerId": each.node_id, "directoryId": each.directory_id},
                **{"port": each.port, "config": dict(each.properties)},
            }
            for each in self.machines.values()
        ]
        return {"nodes": nodes, "leader": self.active.node_id}

    @property
    def _unregistered(self) -> set[int]:
        return {*self.up} - self.state.controllers if self._registers else set()

    def _find_leader(self, *, reads_on: bool = True) -> None:
        """From now on the story speaks to the controller that is active, and reads its log from where it was."""
        end = time.monotonic() + ELECTED_S
        while not (active := [i for i in self.up if self.machines[i].jvm.ask("active")[0] == "true"]):
            assert time.monotonic() < end, "no controller is active"
            time.sleep(0.02)
        offset = self.log.end_offset if reads_on else 0
        self.active = self.machines[active[0]]
        self._jvm, self.port = self.active.jvm, self.active.port
        self._jvm.must("settle")
        self.connection.close()
        self.connection = Connection(self.port)
        self.log = self.active.log
        if reads_on:
            self.log.skip_to(offset)

    def _await_election(self) -> None:
        self._find_leader()
        time.sleep(0.05)

    def _leader(self) -> Json:
        return {"leader": self.active.node_id}

    def _pass(self, ms: int) -> None:
        self._clock_ms += ms
        super()._pass(ms)
        for node_id in self.up:
            if node_id != self.active.node_id:
                self.machines[node_id].jvm.must("clock", self._clock_ms)

    def _exchange(self, step: Json, data: bytes) -> bytes | None:
        if self.asks is None:
            return super()._exchange(step, data)
        machine = self.machines[self.asks]
        machine.jvm.must("sync", self.log.end_offset, 5000)
        machine.jvm.must("settle")  # Its controller replays beside the loader that `sync` asks.
        step["node"] = self.asks
        connection = Connection(machine.port)
        try:
            return connection.exchange(data)
        finally:
            connection.close()

    # Steps.

    def stop(self, node_id: int, how: str) -> None:
        """A controller ends; where it was active, another one takes over, if there is one."""
        machine = self.machines[node_id]
        step: Json = {"kind": "stop", "node": node_id, "how": how}
        if machine is self.active:
            self.connection.close()
        machine.kill() if how == "kill" else machine.stop()
        self._turned(step, changes=machine is self.active)

    def start(self, node_id: int, seed: int, changes: Json, *, leaves: bool = False) -> None:
        """It starts again, with some properties changed; `leaves`: behind an open transaction."""
        machine = self.machines[node_id]
        machine.properties = {**machine.properties, **changes}
        step: Json = {"kind": "start", "node": node_id, "placementSeed": seed, "config": dict(machine.properties)}
        if leaves:
            step.update(self._leave(machine))
        self.state.controllers.discard(node_id)
        was_led = len(self.up) > 0
        machine.begin_start(seed, self._clock_ms)
        machine.end_start()
        self._turned(step, changes=not was_led)

    def _leave(self, machine: Machine) -> Json:
        """A transaction that nobody ends is put into the log of a controller that does not run.

        As kcore's, it begins with its batch's second record: Kafka falls over one that begins right behind a snapshot.
        """
        records = [
            (NoOpRecord(), 0),
            (BeginTransactionRecord(name="left over"), 0),
            (TopicRecord(name=f"left-over-{self.log.end_offset}", topic_id=Uuid(self.random.randbytes(16))), 0),
        ]
        values = [bytes(encode_metadata_record(record, version)) for record, version in records]
        stamp = time.time_ns() // 1_000_000
        data = bytes(
            encode_values(
                values, base_offset=self.log.end_offset, timestamp=stamp, partition_leader_epoch=self.log.epoch
            )
        )
        with self.log.path.open("ab") as file:
            file.write(data)
        return {"leftover": self.log.read(), "leftoverData": base64.b64encode(data).decode()}

    @property
    def may_leave(self) -> bool:
        """Whether the metadata.version has transactions."""
        level = self.state.features["metadata.version"]
        return MetadataVersion.of_level(level, self.setup.release).transactions_supported

    def resign(self) -> None:
        """The active controller gives up its epoch."""
        step: Json = {"kind": "resign", "node": self.active.node_id}
        self._jvm.must("resign")
        end = time.monotonic() + LATEST_S
        while self._jvm.ask("active")[0] == "true":
            assert time.monotonic() < end, "it did not resign"
            time.sleep(0.002)
        self._turned(step, changes=True)

    def snapshot(self, node_id: int) -> None:
        """A controller writes a snapshot."""
        machine = self.machines[node_id]
        machine.jvm.must("sync", self.log.end_offset, 5000)
        done, offset, epoch = machine.jvm.ask("snapshot")
        assert done == "ok"
        path: Path = machine.log.path.with_name(f"{int(offset):020}-{int(epoch):010}.checkpoint")
        batches = [each for each in batches_of(path.read_bytes()) if not each.get("control")]
        records = [{**record, "offset": -1} for each in batches for record in each["records"]]
        snapshot = {"offset": int(offset), "epoch": int(epoch), "records": records}
        self._turned({"kind": "snapshot", "node": node_id, "snapshot": snapshot}, changes=False)

    def _turned(self, step: Json, *, changes: bool) -> None:
        """The rest of a step; `changes`: there will be another leader, if there can be one."""
        if not self.up:
            step.update(batches=[], endOffset=self.log.end_offset, free=[], unordered=[])
            self.steps.append(step)
            return
        if changes:
            self._find_leader()
        self._after(step)
        step["leader"] = self.active.node_id


def recorded_turns(release: str, first_seed: int, count: int, nodes: int) -> Iterator[Json]:
    """Stories with these seeds, one after the other; `nodes`: controllers in the quorum."""
    with TemporaryDirectory(prefix="turns-") as name, ExitStack() as stack:
        folder = Path(name)
        machines = [stack.enter_context(Machine(release, each, folder / str(each))) for each in IDS[:nodes]]
        for seed in range(first_seed, first_seed + count):
            setup = Setup(release, f"{'turns' if nodes == 1 else 'quorum'}-{seed}")
            yield json.loads(json.dumps(TurnsStory(setup, free_ports(nodes), machines).recorded()))
