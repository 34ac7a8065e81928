"""An embedded KRaft controller: register brokers, create a topic, let a broker fall silent, and read the new leaders.

A KraftController reads no clock, socket or file. Each call is one event and returns its outputs as data. This program
performs the outputs: it keeps the log in memory, where all that is appended counts as committed, and sets the clock.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from kcore.kraft import (
    Bootstrap,
    Clocks,
    JavaRandom,
    KraftController,
    KraftControllerConfig,
    NodeConfig,
    Output,
    RequestAnswer,
    RequestInfo,
    WorkOn,
    all_tasks,
)
from kcore.raft import AppendBatches
from kcore.schema import BrokerHeartbeatRequest, BrokerRegistrationRequest, CreateTopicsRequest
from kcore.schema.broker_lifecycle import Feature, Listener
from kcore.schema.topics import CreatableTopic
from kcore.tables import ClusterImage, replay
from kcore.wire import Message, Uuid, decode_records, scan_batches

CLUSTER_ID = "embedded"
LEVEL = 33  # metadata.version 4.4-IV2.
SESSION_MS = 9_000  # broker.session.timeout.ms.


class EmbeddedController:
    """The active controller of a cluster, with its log and its clock."""

    def __init__(self, seed: int) -> None:
        """`seed`: for the placement of replicas and for ids, so that every run decides the same."""
        node = NodeConfig(node_id=100, cluster_id=CLUSTER_ID)
        config = KraftControllerConfig(node, broker_session_timeout_ms=SESSION_MS)
        random = Random(seed)
        self.now_ms = 0
        self.log = b""
        self._answers: list[Message | None] = []
        self._controller = KraftController(
            config,
            Bootstrap.of_features({"metadata.version": LEVEL}, "this program"),
            all_tasks(config),
            Clocks(now_ms=lambda: self.now_ms, wall_ms=lambda: self.now_ms),
            JavaRandom(seed),
            lambda: Uuid(random.randbytes(16)),
        )
        self._perform(self._controller.on_leader(epoch=1, offset=0))

    @property
    def image(self) -> ClusterImage:
        """The state of the cluster."""
        return self._controller.image

    def ask(self, request: Message) -> Any:
        """The response to a request in its newest version."""
        info = RequestInfo(type(request).versions.highest, self.now_ms)
        self._perform(self._controller.on_request(request, info, reply_to=None))
        return self._answers.pop()

    def wait(self, ms: int) -> None:
        """Advances the clock, and runs each periodic task of the controller when it is due."""
        end_ms = self.now_ms + ms
        while (due_ms := self._controller.next_due_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._perform(self._controller.on_timer())
        self.now_ms = end_ms

    def _perform(self, outputs: Sequence[Output]) -> None:
        """Performs the outputs of an event, and those that follow from them, in order; leaves out lines for a log."""
        waiting = deque(outputs)
        while waiting:
            match waiting.popleft():
                case AppendBatches(batches=batches):
                    self.log += batches
                    end_offset = int(scan_batches(batches).last_offset[-1]) + 1
                    waiting.extend(self._controller.on_committed(b"", end_offset))
                case RequestAnswer(response=response):
                    self._answers.append(response)
                case WorkOn():  # A decision about thousands of partitions is made in several events.
                    waiting.extend(self._controller.on_work())


def registration(broker_id: int) -> BrokerRegistrationRequest:
    """The first request of a broker."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=Uuid(bytes([broker_id]) * 16),
        listeners=[Listener(name="PLAINTEXT", host=f"broker-{broker_id}", port=9092)],
        features=[Feature(name="metadata.version", min_supported_version=1, max_supported_version=LEVEL)],
        log_dirs=[Uuid(bytes([100 + broker_id]) * 16)],
    )


def heartbeat(controller: EmbeddedController, broker_id: int) -> BrokerHeartbeatRequest:
    """The heartbeat of a broker that has read the whole metadata log."""
    epoch, end_offset = controller.image.brokers[broker_id].epoch, controller.image.end_offset
    return BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=end_offset)


def show(controller: EmbeddedController) -> None:
    for state in controller.image.table:
        print(f"  {state.topic}-{state.partition}: leader {state.leader}, ISR {state.isr}, replicas {state.replicas}")


controller = EmbeddedController(seed=1)
for broker_id in (1, 2, 3):
    registered = controller.ask(registration(broker_id))
    alive = controller.ask(heartbeat(controller, broker_id))
    print(f"broker {broker_id}: epoch {registered.broker_epoch}, fenced: {alive.is_fenced}")

orders = CreatableTopic(name="orders", num_partitions=3, replication_factor=3)
created = controller.ask(CreateTopicsRequest(topics=[orders])).topics[0]
print(f"topic {created.name}: error code {created.error_code}, {created.num_partitions} partitions")
show(controller)

print("broker 1 sends no more heartbeats")
for _ in range(2):
    controller.wait(SESSION_MS * 2 // 3)
    for broker_id in (2, 3):
        controller.ask(heartbeat(controller, broker_id))
print(f"broker 1: fenced: {controller.image.brokers[1].fenced}")
show(controller)

standby = ClusterImage()
replay(standby, decode_records(controller.log))
print(f"a standby that replays the log has the same state: {standby == controller.image}")

# Prints:
# broker 1: epoch 3, fenced: False
# broker 2: epoch 5, fenced: False
# broker 3: epoch 7, fenced: False
# topic orders: error code 0, 3 partitions
#   orders-0: leader 1, ISR (1, 2, 3), replicas (1, 2, 3)
#   orders-1: leader 2, ISR (2, 3, 1), replicas (2, 3, 1)
#   orders-2: leader 3, ISR (3, 1, 2), replicas (3, 1, 2)
# broker 1 sends no more heartbeats
# broker 1: fenced: True
#   orders-0: leader 2, ISR (2, 3), replicas (1, 2, 3)
#   orders-1: leader 2, ISR (2, 3), replicas (2, 3, 1)
#   orders-2: leader 3, ISR (3, 2), replicas (3, 1, 2)
# a standby that replays the log has the same state: True
