"""The links between machines: each direction of each pair on its own."""

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

MOST_DELAY_US: Final = 1_000_000


class LinkOptions(Protocol):
    """The settings that all links of a world share; shares are fractions of all messages."""

    @property
    def latency_us(self) -> int:
        """The least latency in one direction; a random part is added."""

    @property
    def lost(self) -> float:
        """Never arrive."""

    @property
    def delayed(self) -> float:
        """The share of messages that arrive so late that others overtake them."""

    @property
    def duplicated(self) -> float:
        """Arrive twice."""

    @property
    def damaged(self) -> float:
        """The share of messages that arrive with damaged bytes."""

    @property
    def mistaken(self) -> float:
        """The share of leaders' answers with a wrong claim."""


@dataclass(frozen=True)
class Links:
    """The options of a world in which only faults lose, delay, repeat or damage messages."""

    latency_us: int
    lost: float = 0.0
    delayed: float = 0.0
    duplicated: float = 0.0
    damaged: float = 0.0
    mistaken: float = 0.0


class Network:
    """How long a message takes, whether it arrives, and whether its bytes are damaged."""

    def __init__(self, options: LinkOptions, machines: int, random: Random, jitter: float = 1.0) -> None:
        """`jitter`: the largest random part of the latency, as a share of it."""
        self._latency_us = options.latency_us
        self._jitter_us = options.latency_us * jitter
        self._dice = random.random
        self._calm = (options.lost, options.lost + options.delayed, options.lost + options.delayed + options.duplicated)
        self._size = machines
        self.damaged = options.damaged  # The share of answers with records.
        self.mistaken = options.mistaken  # The share of answers that could be.
        self.lost_more = 0.0
        self.heal()

    def heal(self) -> None:
        """Restores all links."""
        self.cuts = [[0] * self._size for _ in range(self._size)]  # The number of cuts in effect.
        self.slowness_us = [[0] * self._size for _ in range(self._size)]
        self.noise = [[0.0] * self._size for _ in range(self._size)]  # The share of damaged messages beyond `damaged`.
        self.lost_more = 0.0

    def cut(self, source: int, destination: int) -> None:
        """Loses all messages in that direction until `restore` is called as often, or until the network heals."""
        self.cuts[source][destination] += 1

    def restore(self, source: int, destination: int) -> None:
        """Ends one cut."""
        self.cuts[source][destination] -= 1

    def be_reliable(self) -> None:
        """Ends all loss, delay, repetition and damage."""
        self.heal()
        self.damaged = self.mistaken = 0.0
        self._calm = (0.0, 0.0, 0.0)

    def is_noisy(self, source: int, destination: int) -> bool:
        """Whether this message is damaged."""
        share = self.damaged + self.noise[source][destination]
        return share > 0.0 and self._dice() < share

    def delays_us(self, source: int, destination: int) -> tuple[int, ...]:
        """A delay for each copy that arrives: mostly one."""
        if self.cuts[source][destination]:
            return ()
        dice = self._dice
        luck = dice()
        delay_us = self._latency_us + int(dice() * self._jitter_us) + self.slowness_us[source][destination]
        lost, delayed, duplicated = self._calm
        if luck >= duplicated + self.lost_more:
            return (delay_us,)
        if luck < lost or luck >= duplicated:
            return ()
        if luck < delayed:
            return (delay_us + int(dice() * MOST_DELAY_US),)
        return (delay_us, delay_us + int(dice() * MOST_DELAY_US))
