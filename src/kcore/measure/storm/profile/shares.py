"""Divides the CPU time of each thread, as the operating system counts it, among the samples of the thread."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kcore.measure.storm.profile.profile_rules import OTHER, UNSAMPLED, Rules
from kcore.measure.storm.profile.samples import Sample
from kcore.measure.storm.profile.threads import ThreadUse

ENDED: Final = "threads that ended"
_NUMBER: Final = re.compile(r"[-#_ ]\d+\b")
_TRUNCATED: Final = re.compile(r"^(C[12]) Comp.*")  # The kernel keeps 15 characters of a name.


@dataclass(frozen=True, slots=True)
class Share:
    """The CPU time that a stack of a thread took."""

    layer: str
    event: str
    thread: str
    frames: tuple[str, ...]  # Empty for a thread without samples.
    cpu_s: float
    samples: int


def shares_of(use: ThreadUse, samples: Sequence[Sample], rules: Rules) -> Iterator[Share]:
    """The shares of a process in a window; the sum of their `cpu_s` is the CPU time that the process took."""
    by_thread: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if not _waits(sample, rules):
            by_thread[sample.tid].append(sample)
    names = {sample.tid: sample.thread for sample in samples if sample.thread}
    seen = {use.pid, *(sample.tid for sample in samples)}
    for tid, cpu_s in use.cpu_s_of.items():
        name = "main" if tid == use.pid else names.get(tid) or use.names[tid]
        yield from _divided(name, cpu_s, by_thread.get(tid, []), rules, UNSAMPLED if tid in seen else rules.unseen)
    ended = [sample for tid, found in by_thread.items() if tid not in use.names for sample in found]
    if ended:
        yield from _divided(ENDED, use.ended_s, ended, rules, UNSAMPLED)
    elif use.ended_s:
        yield Share(OTHER, OTHER, ENDED, (), use.ended_s, 0)


def _divided(name: str, cpu_s: float, samples: Sequence[Sample], rules: Rules, unseen: str) -> Iterator[Share]:
    """One thread's time; `unseen`: its layer if it has no samples."""
    count, thread = sum(sample.count for sample in samples), _TRUNCATED.sub(r"\1 compiler", _NUMBER.sub("", name))
    if not count:
        layer = rules.layer_of_thread(name) or unseen
        yield Share(layer, layer, thread, (), cpu_s, 0)
    for sample in samples:
        part_s = cpu_s * sample.count / count
        if of_thread := rules.layer_of_thread(sample.thread or name):  # The thread's name decides.
            yield Share(of_thread, of_thread, thread, (), part_s, sample.count)
            continue
        layer, event = rules.layer_of(sample.frames), rules.event_of(sample.frames)
        yield Share(layer, event, thread, rules.trimmed(sample.frames), part_s, sample.count)


def _waits(sample: Sample, rules: Rules) -> bool:
    return bool(sample.frames) and any(re.search(pattern, sample.frames[-1]) for pattern in rules.waits)
