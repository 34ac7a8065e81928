"""Controllers of one quorum take over from each other, with requests on their way."""

from random import Random
from typing import Any

import pytest

from controller.kraft.quorum import Controllers
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.protocol_errors import Errors
from kcore.raft.log.memory_log import MemoryLog
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kcore.wire.records import decode_records
from seeds import seeds

STEPS = 60


def quota_of(user: str) -> AlterClientQuotasRequest:
    entity = [EntityData(entity_type="user", entity_name=user)]
    ops = [OpData(key="producer_byte_rate", value=1024.0)]
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=entity, ops=ops)])


def code(answer: Any) -> Errors:
    return Errors(answer.entries[0].error_code)


class Story:
    """A mix of requests, crashes and cut links, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random, self.world = Random(seed), Controllers(seed)
        self.logs: dict[int, MemoryLog] = {}  # The logs of the stopped nodes.
        self.refused: set[str] = set()  # At once: nothing can come of these.
        self.lost: set[str] = set()  # Their node went down.
        self.request_count = 0

    def step(self) -> None:
        world, random = self.world, self.random
        up = [each for each in world.ids if each not in self.logs]
        draw = random.random()
        if draw < 0.7:
            for _ in range(random.randrange(1, 4)):
                self.ask(random.choice((world.active or up) if random.random() < 0.8 else up))
        elif draw < 0.8 and not self.logs:
            if world.active and random.random() < 0.6:  # With what it wrote on its way to the others.
                self.ask(world.active[0])
                world.run(random.randrange(1, 6))
            self.kill(random.choice((world.active or up) if random.random() < 0.8 else up))
        elif draw < 0.9 and self.logs:
            self.start()
        elif draw < 0.95:
            world.isolate(random.choice(world.active or up))
        else:
            world.heal()
        world.run(random.choice((1, 3, 10, 100, 1_500)))

    def ask(self, node_id: int) -> None:
        name, before = f"user-{self.request_count}", len(self.world.answers)
        self.request_count += 1
        self.world.ask(node_id, quota_of(name), name)
        if len(self.world.answers) > before and name in self.world.answers:
            assert code(self.world.answers[name]) is Errors.NOT_CONTROLLER
            self.refused.add(name)

    def kill(self, node_id: int) -> None:
        self.lost |= self.world.hosts[node_id].open
        self.logs[node_id] = self.world.kill(node_id)

    def start(self) -> None:
        for node_id in [*self.logs]:
            self.world.restart(node_id, self.logs.pop(node_id))

    def end(self) -> None:
        """All nodes are back, and none has anything to wait for."""
        self.world.heal()
        self.start()
        self.world.elect()
        self.ask(self.world.active[0])
        assert self.world.run(10_000, lambda: not any(host.open for host in self.world.hosts.values()))
        self.world.run(3_000)


@pytest.mark.covers("KRaft E5", "E16")
@pytest.mark.parametrize("seed", seeds(3, 8))
def test_every_answer_holds_and_all_states_are_one_whoever_leads(seed: int) -> None:
    story = Story(seed)
    story.world.elect()
    for _ in range(STEPS):
        story.step()
    story.end()
    world = story.world
    [active] = world.active
    log = world.nodes[active].log
    committed = ClusterImage()
    replay(committed, decode_records(log.read(0, 1 << 30, log.end_offset)))
    images = [host.controller.image for host in world.hosts.values()]
    assert all(image == committed for image in images)
    there = {name for ((_, name),) in committed.quotas if name is not None}
    done = {name for name, answer in world.answers.items() if code(answer) is Errors.NONE}
    assert done and done <= there
    assert not story.refused & there
    assert {*world.answers} | story.lost == {f"user-{number}" for number in range(story.request_count)}
