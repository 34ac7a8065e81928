"""A window's CPU time divided: the kernel's account of each thread among the samples of that thread."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kcore.storm.profile.rules import OTHER, Rules
from kcore.storm.profile.samples import Sample
from kcore.storm.profile.threads import ThreadUse

ENDED: Final = "threads that ended"
_NUMBER: Final = re.compile(r"[-#_ ]\d+\b")
_NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Share:
    """What a stack of a thread took."""

    layer: str
    event: str
    thread: str
    frames: tuple[str, ...]  # Empty for a thread without samples.
    cpu_s: float
    samples: int


def shares_of(use: ThreadUse, samples: Sequence[Sample], rules: Rules) -> Iterator[Share]:
    """All of the process's CPU time in the window; the sum of `cpu_s` is the kernel's."""
    by_thread: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if not _waits(sample, rules):
            by_thread[sample.tid].append(sample)
    names = {sample.tid: sample.thread for sample in samples if sample.thread}
    for tid, cpu_s in use.cpu_s_of.items():
        name = "main" if tid == use.pid else names.get(tid) or use.names[tid]
        yield from _divided(name, cpu_s, by_thread.get(tid, []), rules)
    ended = [sample for tid, found in by_thread.items() if tid not in use.names for sample in found]
    if ended:
        for share in _divided(ENDED, use.ended_s, ended, rules):
            yield share
    elif use.ended_s:
        yield Share(OTHER, _NONE, ENDED, (), use.ended_s, 0)


def _divided(name: str, cpu_s: float, samples: Sequence[Sample], rules: Rules) -> Iterator[Share]:
    """One thread's time."""
    count, thread = sum(sample.count for sample in samples), _NUMBER.sub("", name)
    if not count:
        yield Share(rules.layer_of_thread(name) or rules.unsampled, _NONE, thread, (), cpu_s, 0)
    for sample in samples:
        layer = rules.layer_of_thread(sample.thread or name)
        event = _NONE if layer else rules.event_of(sample.frames)
        part_s = cpu_s * sample.count / count
        frames = rules.trimmed(sample.frames)
        yield Share(layer or rules.layer_of(sample.frames), event, thread, frames, part_s, sample.count)


def _waits(sample: Sample, rules: Rules) -> bool:
    return bool(sample.frames) and any(re.search(pattern, sample.frames[-1]) for pattern in rules.waits)
