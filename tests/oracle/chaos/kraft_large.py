"""A request that is a metadata transaction of several batches (KIP-868): all of it takes effect, or nothing."""

from random import Random
from typing import Any, Final

from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema import acls
from kcore.schema.structure import Message
from oracle.chaos.kraft_registers import Part, Register, Step, Violation, becomes
from oracle.chaos.kraft_requests import ALLOW, EVERYBODY, READ, TOPIC

COUNT: Final = 320
HOST_BYTES: Final = 30_000  # In each entry: all entries together exceed a batch.
WHO: Final = "User:large"


class Large(Register):
    """Entries of access control lists, all of one host, whose name is so often one letter; its state is that letter."""

    def found(self, image: ClusterImage) -> str | None:
        hosts = [each.host[0] for each in image.acls.values() if each.principal == WHO]
        if hosts and (len(hosts) != COUNT or len({*hosts}) > 1):
            raise Violation(f"{self}: only a part of a request took effect, {len(hosts)} of {COUNT}")
        return hosts[0] if hosts else None


def alter_large(chosen: Large, dice: Random) -> Step:
    """All are made or, where they may be there, taken away."""
    request: Message
    if chosen.states != {None}:
        everywhere = acls.DeleteAclsFilter(**{**EVERYBODY, "principal_filter": WHO}, resource_name_filter=None)
        request = acls.DeleteAclsRequest(filters=[everywhere])
        return Step(request, [Part(chosen, becomes(None), lambda response: _one(response.filter_results))])
    host = dice.choice("abcdefgh")
    request = acls.CreateAclsRequest(
        creations=[
            acls.AclCreation(
                resource_type=TOPIC,
                resource_name=f"{chosen.name}-{k}",
                principal=WHO,
                host=host * HOST_BYTES,
                operation=READ,
                permission_type=ALLOW,
            )
            for k in range(COUNT)
        ]
    )
    return Step(request, [Part(chosen, becomes(host), lambda response: _one(response.results))])


def _one(results: list[Any]) -> Errors:
    """The error of all."""
    [code] = {each.error_code for each in results}
    return Errors.of(code)
