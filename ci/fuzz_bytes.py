"""For every byte of every seed: replace it by each other value, and insert each value before it. Nothing is random.

A round is one seed, and has numbers from `BYTES` on. Kinds that take longer (batches, records, logs, the front) are
left to the rounds of drawn changes.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Final

from fuzz_inputs import Input, Seed, frames, messages
from fuzz_kernels import SEEDS_OF

BYTES: Final = 1 << 33  # The first round of these inputs.
_OTHERS, _ALL = 255, 256
A_PLACE: Final = _OTHERS + _ALL  # Inputs for one byte.
_KINDS: Final[dict[str, Callable[[], list[Seed]]]] = {
    "objects": messages,
    "frames": frames,
    **{kind: SEEDS_OF[kind] for kind in ("jute", "states", "split")},
}


@cache
def seeds() -> list[tuple[str, Seed]]:
    """With their kinds, each once."""
    return list(dict.fromkeys(chain.from_iterable(((kind, each) for each in of()) for kind, of in _KINDS.items())))


def size_of(round_: int) -> int:
    """How many inputs it has."""
    return len(seeds()[round_ - BYTES][1].data) * A_PLACE


def bytes_input_of(round_: int, index: int) -> Input:
    """As `fuzz_inputs.input_of`."""
    kind, seed = seeds()[round_ - BYTES]
    place, change = divmod(index, A_PLACE)
    before, behind = seed.data[:place], seed.data[place:]
    if change < _OTHERS:
        return Input(kind, seed.name, seed.version, before + bytes([(behind[0] + 1 + change) % 256]) + behind[1:])
    return Input(kind, seed.name, seed.version, before + bytes([change - _OTHERS]) + behind)


def bytes_rounds(count: int) -> Iterator[int]:
    """So many inputs at least, or all that there are."""
    for number in range(len(seeds())):
        if count <= 0:
            return
        yield BYTES + number
        count -= size_of(BYTES + number)
