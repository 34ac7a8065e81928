"""kcore's and Kafka's own controllers in one quorum: they take turns as the active one over one log.

The clients are those of `kraft_chaos`: administrators and brokers over the wire. Before each check all controllers are
killed.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from kcore.protocol_errors import Errors
from oracle.chaos.kraft_chaos import Chaos, ChaosStory
from oracle.chaos.kraft_kills import Controllers, shown_at_failure
from oracle.kafka_tools import RELEASE
from oracle.kraft_clusters import FIRST_CONTROLLER

PROPERTIES: Final = """metadata.log.max.record.bytes.between.snapshots=4000
metadata.max.idle.interval.ms=300
broker.session.timeout.ms=4000
controller.quorum.append.linger.ms=0
num.network.threads=1
num.io.threads=2
delegation.token.secret.key=secret
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listener.security.protocol.map=CONTROLLER:PLAINTEXT
"""


def mixed_controllers(
    *, kcore: int, real: int, brokers: int = 0, properties: str = PROPERTIES, release: str = RELEASE
) -> Controllers:
    """kcore's controllers have the first ids."""
    first = FIRST_CONTROLLER + kcore
    return Controllers(
        controllers=kcore + real,
        brokers=brokers,
        properties=properties,
        real=range(first, first + real),
        release=release,
    )


async def _play(cluster: Controllers, story: ChaosStory, rounds: int, say: Callable[[str], None]) -> None:
    chaos = Chaos(cluster, story)
    for own in chaos.owners:
        # Kafka's snapshots may lack credentials (ScramDelta.apply). A standby that began from one ends itself at the
        # record that deletes such a credential.
        own.deletes_scram = False
    for token in (each for own in chaos.owners for each in own.tokens):
        # Kafka looks tokens up in a cache that follows the log a little later (DelegationTokenPublisher).
        token.anyway = frozenset({Errors.DELEGATION_TOKEN_NOT_FOUND})
    async with chaos.running():
        for _ in range(rounds):
            for node in chaos.dice.sample(cluster.controllers, len(cluster.controllers)):
                await chaos.turn(node)
            await chaos.check()
            say(f"{dict(story.active)}; {story.summary}")
    chaos.check_logs()


def run(
    seed: int,
    *,
    kcore: int,
    real: int,
    rounds: int,
    release: str = RELEASE,
    say: Callable[[str], None] = lambda _: None,
) -> ChaosStory:
    """In each round every node has a turn, in random order; a Violation tells what went wrong."""
    story = ChaosStory(seed)
    cluster = mixed_controllers(kcore=kcore, real=real, release=release)
    with cluster, shown_at_failure(cluster.controllers):
        asyncio.run(_play(cluster, story, rounds, say))
    return story


if __name__ == "__main__":
    print(run(1, kcore=int(sys.argv[1]), real=int(sys.argv[2]), rounds=int(sys.argv[3]), say=print))
