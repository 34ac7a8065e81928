"""Says how far a figure can be trusted: by the interval of its median, and by limits above which it is noisy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, floor, sqrt
from typing import Any, Final

from kcore.measure.report.units import three_digits

CONFIDENCE: Final = 0.95
P99_OVER_MEDIAN: Final = 2.0  # A figure or a run is noisy above this limit or one of the next four.
P99_OVER_MIN: Final = 3.0
INTERVAL_OVER_MEDIAN: Final = 0.1  # The width of the median's interval.
LOAD_A_CORE: Final = 0.25  # The load average before the run began, per core.
STOLEN: Final = 0.02  # Share of all cores' time that the host takes from a virtual machine.
_NORMAL: Final = 1.96  # 95% of a normal distribution lie within so many standard deviations of its mean.
_EXACT: Final = 1_000  # Up to so many samples binomial distributions are summed; with more, the normal one is used.

SHIFTED: Final = 0.25  # `shift` reports if the share of samples above the limit grew by this.
_LEAST_SHIFTED: Final = 2  # `shift` ignores fewer new samples above the limit.
_BY_CHANCE: Final = 0.2  # `shift` ignores a growth that has a higher probability by chance.

LIMITS: Final = (
    f"Noisy, by the limits of this report: the p99 above {P99_OVER_MEDIAN:g} times the median or "
    f"{P99_OVER_MIN:g} times the least; an interval of the median wider than {INTERVAL_OVER_MEDIAN:.0%} of it; a load "
    f"average above {LOAD_A_CORE:g} a core before the run; more than {STOLEN:.0%} of the cores' time stolen by the "
    "host of a virtual machine."
)
INTERVAL: Final = (
    f"Intervals are {CONFIDENCE:.0%} confidence intervals of the median by order statistics: the two samples between "
    "which it lies with that probability, whatever the distribution. They assume independent samples; consecutive "
    "runs are not quite independent, so the median of another run may lie outside. With fewer than 6 samples the "
    "interval is the whole range."
)


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a figure's samples, in their unit."""

    count: int
    least: float
    quarter: float
    median: float
    three_quarters: float
    p99: float
    low: float  # of the median's interval
    high: float

    @property
    def noise(self) -> list[str]:
        """The limits that the spread exceeds, in words."""
        if self.least <= 0:
            return []
        found = []
        if self.p99 > P99_OVER_MEDIAN * self.median:
            found.append(f"p99 is {three_digits(self.p99 / self.median)} x median")
        if self.p99 > P99_OVER_MIN * self.least:
            found.append(f"p99 is {three_digits(self.p99 / self.least)} x min")
        if self.high - self.low > INTERVAL_OVER_MEDIAN * self.median:
            found.append(f"median is uncertain by {(self.high - self.low) / self.median:.0%}")
        return found


def spread(samples: Sequence[float]) -> Spread:
    """The spread of at least one sample."""
    ordered = sorted(samples)
    low, high = interval(len(ordered))
    return Spread(
        len(ordered),
        ordered[0],
        quantile(ordered, 0.25),
        quantile(ordered, 0.5),
        quantile(ordered, 0.75),
        quantile(ordered, 0.99),
        ordered[low],
        ordered[high],
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile `share` (0 to 1), linear between the two nearest samples as in NumPy's `percentile`."""
    at = share * (len(ordered) - 1)
    below = floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def interval(count: int) -> tuple[int, int]:
    """The indexes of the two among `count` ordered samples between which the median lies with CONFIDENCE.

    The number of samples below the median is binomially distributed. The interval leaves out both unlikely tails.
    """
    if count > _EXACT:
        low = max(0, floor((count - _NORMAL * sqrt(count)) / 2))
        return low, count - 1 - low
    low, outside = -1, 0.0
    while low + 1 < count / 2:
        outside += 2 * comb(count, low + 1) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        low += 1
    return max(0, low), count - 1 - max(0, low)


def shift(old: Sequence[float], new: Sequence[float], threshold: float) -> str:
    """A text with the shares of new and old samples that are above `threshold` times the old median.

    Empty unless the share grew by SHIFTED or more, and chance is an unlikely cause (Fisher's exact test). This finds a
    run that became slow in a part of its repetitions, although its best time is as good as before.
    """
    limit = threshold * quantile(sorted(old), 0.5)
    before, after = (sum(value > limit for value in samples) for samples in (old, new))
    shares = before / len(old), after / len(new)
    if shares[1] - shares[0] < SHIFTED or after < _LEAST_SHIFTED:
        return ""
    if len(old) + len(new) <= _EXACT and chance(before, len(old), after, len(new)) > _BY_CHANCE:
        return ""
    text = f"{shares[1]:.0%} of the new times are above {threshold:g} times the old median"
    return f"{text}, {shares[0]:.0%} of the old ones"


def chance(before: int, of_old: int, after: int, of_new: int) -> float:
    """The probability that `after` or more new samples are above the limit if old and new samples do not differ."""
    above, count = before + after, of_old + of_new
    ways = sum(comb(above, at) * comb(count - above, of_new - at) for at in range(after, min(above, of_new) + 1))
    return ways / comb(count, of_new)


def about_the_machine(facts: Mapping[str, Any]) -> list[str]:
    """Sentences about how busy the machine was, from the facts of a run; empty if the facts have no load."""
    load, cores = facts.get("load") or {}, facts.get("machine", {}).get("cores") or 1
    lines = []
    before, stolen = load.get("load_before"), load.get("stolen_share")
    if before is not None and before > LOAD_A_CORE * cores:
        lines.append(f"The machine was busy before the run began: a load average of {before:.2f} on {cores} cores.")
    if stolen is not None and stolen > STOLEN:
        lines.append(f"Its host took {stolen:.0%} of the cores' time away during the run.")
    return lines


def load_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """How busy the machine was, as entries of the list of facts."""
    load, cores = facts.get("load") or {}, facts.get("machine", {}).get("cores")
    found = {}
    if (before := load.get("load_before")) is not None:
        found["load before"] = f"{before:.2f} on {cores} cores"
    if (busy := load.get("busy_share")) is not None:
        found["cores busy"] = f"{busy:.0%} during the run, by all processes"
    if (stolen := load.get("stolen_share")) is not None:
        found["cores stolen"] = f"{stolen:.1%} by the machine's host"
    return found
