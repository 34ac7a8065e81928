"""The static voters of a quorum, as controller.quorum.voters names them."""

import re
from collections.abc import Iterable
from typing import Final

from kcore.net.address import address_flaw
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter

_VOTER: Final = re.compile(r"(\d+)@(.+):(\d+)")


def static_voters(texts: Iterable[str], listener: str) -> tuple[Voter, ...]:
    """The voters of texts such as `1@host:9093`, each reached at `listener`; ValueError says what is wrong."""
    found = [_VOTER.fullmatch(each.strip()) for each in texts]
    voters = tuple(
        Voter(ReplicaKey(int(each[1])), {listener: Address(each[2].strip("[]"), int(each[3]))})
        for each in found
        if each
    )
    if None in found or len({each.key.id for each in voters}) < len(found):
        raise ValueError("give ID@HOST:PORT,..., each id once")
    for voter in voters:
        if flaw := address_flaw(*voter.endpoints[listener]):
            raise ValueError(flaw)
    return voters
