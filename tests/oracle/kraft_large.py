"""A request that is a metadata transaction of several batches (KIP-868): all of it takes effect, or nothing."""

from random import Random
from typing import Any, Final

from kcore.metadata.image import ClusterImage
from kcore.protocol_errors import Errors
from oracle.kraft_mix import incremental
from oracle.kraft_registers import Part, Register, Step, Violation, becomes


class Large(Register):
    """One setting of so many resources that a request for all of them is a metadata transaction of several batches.

    Its state is the value; all have the same one.
    """

    COUNT: Final = 320
    VALUE_BYTES: Final = 30_000
    SETTING: Final = "metrics"
    CLIENT_METRICS: Final = 16  # ConfigResource.Type

    @property
    def resources(self) -> list[str]:
        """Their names."""
        return [f"{self.name}-{k}" for k in range(self.COUNT)]

    def found(self, image: ClusterImage) -> str | None:
        configs = [image.configs.get((self.CLIENT_METRICS, name), {}) for name in self.resources]
        values = {config.get(self.SETTING) for config in configs}
        if len(values) > 1:
            raise Violation(f"{self}: only a part of a request took effect")
        return values.pop()


def alter_large(chosen: Large, dice: Random) -> Step:
    """All its resources at once, to another value or, where it has one, to none."""
    is_there = None not in chosen.states
    value = None if is_there else dice.choice("abcdefgh") * chosen.VALUE_BYTES
    request = incremental(chosen.CLIENT_METRICS, chosen.resources, chosen.SETTING, value)

    def answer(response: Any) -> Errors:
        """Of all: it is one."""
        [code] = {each.error_code for each in response.responses}
        return Errors.of(code)

    return Step(request, [Part(chosen, becomes(value), answer)])
