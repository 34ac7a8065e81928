"""The network between machines. Each direction between two machines is a link with its own faults."""

from dataclasses import dataclass
from random import Random
from typing import Final

MOST_DELAY_US: Final = 1_000_000


@dataclass(frozen=True)
class Links:
    """The settings that all links of a world have in common.

    By default every message arrives once and undamaged after the latency, unless a fault is injected.
    """

    latency_us: int  # The least latency in one direction; a random part is added.
    lost: float = 0.0  # The share of messages that never arrive.
    delayed: float = 0.0  # The share of messages that arrive so late that others overtake them.
    duplicated: float = 0.0  # The share of messages that arrive twice.
    damaged: float = 0.0  # The share of messages that arrive with damaged bytes.
    mistaken: float = 0.0  # The share of leaders' answers that make a wrong claim.


class Network:
    """Decides how long a message takes, whether it arrives, and whether its bytes are damaged."""

    def __init__(self, options: Links, machines: int, random: Random, jitter: float = 1.0) -> None:
        """`jitter`: the largest random addition to the latency, as a share of `options.latency_us`."""
        self._latency_us = options.latency_us
        self._jitter_us = options.latency_us * jitter
        self._dice = random.random
        self._calm = (options.lost, options.lost + options.delayed, options.lost + options.delayed + options.duplicated)
        self._size = machines
        self.damaged = options.damaged  # The share of damaged answers, among answers with records.
        self.mistaken = options.mistaken  # The share of wrong answers, among answers that can be made wrong.
        self.lost_more = 0.0
        self.heal()

    def heal(self) -> None:
        """Restores all links."""
        self.cuts = [[0] * self._size for _ in range(self._size)]  # The number of cuts in effect.
        self.slowness_us = [[0] * self._size for _ in range(self._size)]
        self.noise = [[0.0] * self._size for _ in range(self._size)]  # The share of damaged messages beyond `damaged`.
        self.lost_more = 0.0

    def cut(self, source: int, destination: int) -> None:
        """Loses all messages in that direction. Each cut lasts until its own `restore`, or until `heal`."""
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
        """The delays of the message's copies: usually one; none if it is lost, two if it is duplicated."""
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
