"""Compares two runs: which operations became slower, and whether the two runs are comparable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kcore.measure.report.earlier import is_same_machine
from kcore.measure.report.exits import Exit
from kcore.measure.report.host_speeds import about_the_hosts
from kcore.measure.report.noise import SHIFTED, about_the_machine, shift
from kcore.suggestions import did_you_mean

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
    @property
    def times_ns(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The ratio above which an operation counts as slower: a default, and the ratios of named operations."""

    default: float = THRESHOLD
    own: Mapping[str, float] = field(default_factory=dict)

    def of(self, each: Compared) -> float:
        """The threshold of the most exact name of the operation that has one, or the default."""
        return next((self.own[name] for name in _names_of(each) if name in self.own), self.default)

    def unknown(self, compared: Sequence[Compared]) -> list[str]:
        """The errors for names in `own` that no operation has, one line each."""
        known = {name for each in compared for name in _names_of(each)}
        return [f"{name!r} is nowhere{did_you_mean(name, sorted(known))}" for name in self.own if name not in known]


def _names_of(each: Compared) -> tuple[str, ...]:
    """The operation's names, the most exact first, such as "codec / LeaderAndIsr v7: decode"; the workload is last."""
    group = each.operation.partition(": ")[0]
    return (f"{each.workload} / {each.operation}", each.operation, group, each.workload)


@dataclass(frozen=True, slots=True)
class Pair:
    """One named operation at one size, in both runs."""

    old: Compared
    new: Compared
    threshold: float = THRESHOLD

    @property
    def title(self) -> str:
        """The title in the new run, followed by the name in the old run if the names differ."""
        same = (self.old.workload, self.old.operation) == (self.new.workload, self.new.operation)
        return self.new.title if same else f"{self.new.title} (old: {self.old.workload} / {self.old.operation})"

    @property
    def median_ratio(self) -> float:
        return self.new.median_ns / max(1, self.old.median_ns)

    @property
    def min_ratio(self) -> float:
        return self.new.min_ns / max(1, self.old.min_ns)

    @property
    def slower(self) -> float:
        """The smaller ratio of new time to old time. Noise often moves only the median, and luck only the best time."""
        return min(self.median_ratio, self.min_ratio)

    @property
    def faster(self) -> float:
        """The factor by which both the median and the best time are faster."""
        return 1 / max(self.median_ratio, self.min_ratio, 1e-9)

    @property
    def same_result(self) -> bool:
        return self.old.digest == self.new.digest

    @property
    def is_regression(self) -> bool:
        """True if both the best time and the median are slower by more than the threshold."""
        return self.slower > self.threshold

    @property
    def is_improvement(self) -> bool:
        """True if both the best time and the median are faster by more than the threshold."""
        return self.faster > self.threshold

    @property
    def doubt(self) -> str:
        """Why the pair is doubtful: only a part of the new times is slower. Empty if the pair is not doubtful."""
        return "" if self.is_regression else shift(self.old.times_ns, self.new.times_ns, self.threshold)

    @property
    def is_partly_faster(self) -> bool:
        """True if only a part of the old times was slower than the new times."""
        return not self.is_improvement and bool(shift(self.new.times_ns, self.old.times_ns, self.threshold))

    @property
    def noise(self) -> str:
        """The noise of both runs in words."""
        both = (("old", self.old.noise), ("new", self.new.noise))
        return "; ".join(f"{name} {', '.join(noise)}" for name, noise in both if noise)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The pairs of operations in both runs, and the names of operations in one run only."""

    pairs: Sequence[Pair]
    only_old: Sequence[str]
    only_new: Sequence[str]
    thresholds: Thresholds
    remarks: Sequence[str] = ()  # Reasons to doubt the comparison.
    what: str = "operation"  # The noun for an operation, in the singular.
    about: str = ""  # The meaning of the times, if operation names do not say it.
    labels: tuple[str, str] = ("old", "new")

    @property
    def regressions(self) -> list[Pair]:
        """The pairs that became slower, the slowest first."""
        found = [pair for pair in self.pairs if pair.same_result and pair.is_regression]
        return sorted(found, key=lambda pair: -pair.slower)

    @property
    def doubtful(self) -> list[Pair]:
        """The pairs of which only a part of the times is slower: neither regressions nor unchanged."""
        return [pair for pair in self.pairs if pair.same_result and pair.doubt]

    @property
    def improvements(self) -> list[Pair]:
        """The pairs that became faster, the fastest first."""
        found = [pair for pair in self.pairs if pair.same_result and pair.is_improvement and not pair.doubt]
        return sorted(found, key=lambda pair: -pair.faster)

    @property
    def partly_faster(self) -> list[Pair]:
        """The pairs of which only a part of the times is faster."""
        known = {id(pair) for pair in (*self.regressions, *self.doubtful)}
        return [pair for pair in self.pairs if pair.same_result and pair.is_partly_faster and id(pair) not in known]

    @property
    def other_results(self) -> list[Pair]:
        return [pair for pair in self.pairs if not pair.same_result]

    @property
    def unchanged(self) -> list[Pair]:
        """The pairs that changed by no more than the rule allows, the slowest first."""
        changed = {id(pair) for pair in (*self.other_results, *self.regressions, *self.doubtful)}
        changed |= {id(pair) for pair in (*self.improvements, *self.partly_faster)}
        return sorted((pair for pair in self.pairs if id(pair) not in changed), key=lambda pair: -pair.slower)

    @property
    def exit(self) -> Exit:
        """INVALID if operations are missing or results differ; FAILED for a regression; INVALID for a doubt."""
        if not self.pairs or self.only_old or self.other_results:
            return Exit.INVALID
        if self.regressions:
            return Exit.FAILED
        return Exit.INVALID if self.doubtful else Exit.GOOD

    @property
    def rule(self) -> str:
        """The rule of the comparison in sentences, and the meaning of the times."""
        others = ", ".join(f"{ratio:g} for {name}" for name, ratio in self.thresholds.own.items())
        threshold = f"{self.thresholds.default:g}{f' ({others})' if others else ''}"
        sentence = (
            f"Slower: the smaller of two ratios, of the medians and of the best times, is above {threshold}. "
            "Faster: the larger of the two is below 1 over it. "
            "Doubtful: not slower by both, but the share of times above it times the old median grew by at least "
            f"{100 * SHIFTED:.0f} points."
        )
        (old, new), names = self.labels, ""
        if self.labels != ("old", "new"):
            names = f"{old} is the old run, {new} the new one, which is judged. "
        return f"{names}{sentence} {self.about}".rstrip()

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        if not self.pairs:
            return f"no verdict: the runs have no {self.what} in common"
        parts = [f"no verdict: {self._no_verdict}"] if self._no_verdict else []
        if slower := self.regressions:
            parts.append(f"slower: {len(slower)} of {self._counted(len(self.pairs))}, up to {slower[0].slower:.2f}x")
        elif parts:
            parts.append(f"{self._counted(len(self.pairs))} compared")
        else:
            parts.append(f"none of {self._counted(len(self.pairs))} is slower")
        if faster := self.improvements:
            parts.append(f"faster: {len(faster)}, up to {faster[0].faster:.2f}x")
        if partly := self.partly_faster:
            parts.append(f"faster in a part of the times: {len(partly)}")
        if not self._no_verdict and self.unchanged:
            changed = len(self.pairs) - len(self.unchanged)
            parts.append(("the rest" if changed else "all") + " within the rule")
        return "; ".join(parts)

    def _counted(self, count: int) -> str:
        return f"{count} {self.what}" if count == 1 else f"{count} {self.what}s"

    @property
    def _no_verdict(self) -> str:
        """The reason why there is no verdict, or empty. A regression is always a verdict."""
        why = [f"{len(self.other_results)} with another result"] if self.other_results else []
        why += [f"{len(self.only_old)} of the old run missing"] if self.only_old else []
        if doubtful := self.doubtful:
            first = doubtful[0]
            why.append(f"{len(doubtful)} doubtful ({first.new.workload} / {first.new.operation}: {first.doubt})")
        return " and ".join(why)


def compare(
    old: Sequence[Compared],
    new: Sequence[Compared],
    threshold: float | Thresholds = THRESHOLD,
    remarks: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
) -> Comparison:
    """Pairs the named operations of two runs; a ratio above its threshold is a regression.

    `names`: the new name of an operation, workload, scenario or target, by its name in the old run. A renamed entry
    replaces an entry of the old run with the new name; entries of the new run with an old name are not compared.
    """
    renamed = names or {}
    taken = {*renamed.values()}
    before = {each.key: each for each in old if not (renamed.keys() | taken) & _words(each)}
    before |= {_renamed(each.key, renamed): each for each in old if renamed.keys() & _words(each)}
    after = {each.key: each for each in new if not (renamed.keys() - taken) & _words(each)}
    thresholds = threshold if isinstance(threshold, Thresholds) else Thresholds(threshold)
    return Comparison(
        pairs=[Pair(each, after[key], thresholds.of(after[key])) for key, each in before.items() if key in after],
        only_old=[each.title for key, each in before.items() if key not in after],
        only_new=[after[key].title for key in after if key not in before],
        thresholds=thresholds,
        remarks=remarks,
    )


def _words(each: Compared) -> set[str]:
    """The names in the key of an operation."""
    return {part for part in each.key if isinstance(part, str)}


def _renamed(key: tuple[Any, ...], names: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(names.get(part, part) if isinstance(part, str) else part for part in key)


def unknown_names(old: Sequence[Compared], new: Sequence[Compared], names: Mapping[str, str]) -> str:
    """Why `names` cannot be applied, in one line; empty if all names exist."""
    for run, wanted, which in ((old, names.keys(), "old"), (new, names.values(), "new")):
        known = {word for each in run for word in _words(each)}
        for name in wanted:
            if name not in known:
                return f"the {which} run has no {name!r}{did_you_mean(name, sorted(known))}"
    if len({*names.values()}) < len(names):
        return "two names of the old run cannot become one of the new run"
    return ""


def remarks_on(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between the two runs' facts that make a comparison of their times doubtful."""
    found = []
    if old.get("machine") and new.get("machine") and not is_same_machine(old, new):
        found.append("The runs are of different machines: their times do not compare.")
    if str(old.get("when", "")) > str(new.get("when", "")) > "":
        found.append(f"The old run is later than the new one, {old['when']} and {new['when']}: are the two swapped?")
    for name, facts in (("old", old), ("new", new)):
        if not facts.get("machine"):
            found.append(f"The {name} run does not say on which machine it ran: its times may not compare.")
        found += [
            f"The {name} run: {line[:1].lower()}{line[1:]}"
            for line in (*about_the_machine(facts), *about_the_hosts(facts))
        ]
    return found
