"""Two runs side by side: which named operations became slower, and whether that can be said at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kcore.report.earlier import is_same_machine
from kcore.report.exits import Exit
from kcore.report.noise import about_the_machine

THRESHOLD = 1.25


class Compared(Protocol):
    """One named operation of one run: a `Summary` of `kcore bench`, or a scenario of `kcore storm`."""

    @property
    def key(self) -> tuple[Any, ...]: ...
    @property
    def title(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def brokers(self) -> int: ...
    @property
    def named(self) -> dict[str, Any]: ...
    @property
    def digest(self) -> str: ...
    @property
    def median_ns(self) -> int: ...
    @property
    def min_ns(self) -> int: ...
    @property
    def low_ns(self) -> int: ...
    @property
    def high_ns(self) -> int: ...
    @property
    def noise(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """One named operation at one size, in both runs."""

    old: Compared
    new: Compared

    @property
    def median_ratio(self) -> float:
        return self.new.median_ns / max(1, self.old.median_ns)

    @property
    def min_ratio(self) -> float:
        return self.new.min_ns / max(1, self.old.min_ns)

    @property
    def slower(self) -> float:
        """The ratio that the rule looks at: noise moves the median alone, luck the best alone."""
        return min(self.median_ratio, self.min_ratio)

    @property
    def faster(self) -> float:
        """The same the other way round: how many times as fast it is by both."""
        return 1 / max(self.median_ratio, self.min_ratio, 1e-9)

    @property
    def same_result(self) -> bool:
        return self.old.digest == self.new.digest

    def is_regression(self, threshold: float) -> bool:
        """Both the best and the median are slower by more than that."""
        return self.slower > threshold

    def is_improvement(self, threshold: float) -> bool:
        """Both are faster by more than that."""
        return self.faster > threshold

    @property
    def noise(self) -> str:
        """In words, for both runs."""
        both = (("old", self.old.noise), ("new", self.new.noise))
        return "; ".join(f"{name} {', '.join(noise)}" for name, noise in both if noise)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Operations of both runs, and the names of those in one run only."""

    pairs: Sequence[Pair]
    only_old: Sequence[str]
    only_new: Sequence[str]
    threshold: float
    remarks: Sequence[str] = ()  # What makes the comparison doubtful.
    what: str = "operation"  # In the singular.
    about: str = ""  # What the times are, where the name of an operation does not say it.

    @property
    def regressions(self) -> list[Pair]:
        """The slowest first."""
        found = [pair for pair in self.pairs if pair.same_result and pair.is_regression(self.threshold)]
        return sorted(found, key=lambda pair: -pair.slower)

    @property
    def improvements(self) -> list[Pair]:
        """The fastest first."""
        found = [pair for pair in self.pairs if pair.same_result and pair.is_improvement(self.threshold)]
        return sorted(found, key=lambda pair: -pair.faster)

    @property
    def other_results(self) -> list[Pair]:
        return [pair for pair in self.pairs if not pair.same_result]

    @property
    def unchanged(self) -> list[Pair]:
        """Those within the rule, slowest first."""
        changed = {id(pair) for pair in (*self.regressions, *self.improvements, *self.other_results)}
        return sorted((pair for pair in self.pairs if id(pair) not in changed), key=lambda pair: -pair.slower)

    @property
    def exit(self) -> Exit:
        """INVALID where times compare different things: nothing in common, a cell lost, other results."""
        if not self.pairs or self.only_old or self.other_results:
            return Exit.INVALID
        return Exit.FAILED if self.regressions else Exit.GOOD

    @property
    def rule(self) -> str:
        """One sentence, and what the times are."""
        sentence = (
            f"Slower: the smaller of two ratios, of the medians and of the best times, is above {self.threshold:g}; "
            f"faster: the larger of the two is below 1/{self.threshold:g}."
        )
        return f"{sentence} {self.about}".rstrip()

    @property
    def verdict(self) -> str:
        """One line."""
        if not self.pairs:
            return f"no verdict: the runs have no {self.what} in common"
        parts = [self._no_verdict] if self._no_verdict else []
        if slower := self.regressions:
            parts.append(f"slower: {len(slower)} of {self._counted(len(self.pairs))}, up to {slower[0].slower:.2f}x")
        else:
            parts.append(f"none of {self._counted(len(self.pairs))} is slower")
        if faster := self.improvements:
            parts.append(f"faster: {len(faster)}, up to {faster[0].faster:.2f}x")
        changed = len(self.pairs) - len(self.unchanged)
        rest = ("the rest" if changed else "all") + " within the rule"
        return "; ".join([*parts, *([rest] if self.unchanged else [])])

    def _counted(self, count: int) -> str:
        return f"{count} {self.what}" if count == 1 else f"{count} {self.what}s"

    @property
    def _no_verdict(self) -> str:
        """Why it is not valid; empty if it is."""
        why = [f"{len(self.other_results)} with another result"] if self.other_results else []
        why += [f"{len(self.only_old)} of the old run missing"] if self.only_old else []
        return f"no verdict: {' and '.join(why)}" if why else ""


def compare(
    old: Sequence[Compared],
    new: Sequence[Compared],
    threshold: float = THRESHOLD,
    remarks: Sequence[str] = (),
) -> Comparison:
    """Pair the named operations of two runs; a ratio above `threshold` is a regression."""
    before, after = ({each.key: each for each in run} for run in (old, new))
    return Comparison(
        pairs=[Pair(before[key], after[key]) for key in before if key in after],
        only_old=[before[key].title for key in before if key not in after],
        only_new=[after[key].title for key in after if key not in before],
        threshold=threshold,
        remarks=remarks,
    )


def remarks_on(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What the facts of two runs say against comparing their times."""
    found = []
    if old.get("machine") and new.get("machine") and not is_same_machine(old, new):
        found.append("The runs are of different machines: their times do not compare.")
    for name, facts in (("old", old), ("new", new)):
        found += [f"The {name} run: {line[:1].lower()}{line[1:]}" for line in about_the_machine(facts)]
    return found
