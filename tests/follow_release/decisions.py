"""Recorded decisions, decided again by the classes of another release, and by kcore."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import cases
from controller.kraft.recorded.differences import parting
from follow_release.differences import Difference
from follow_release.facts import Json
from kcore.errors import KcoreError
from kcore.replication.partition_change import partition_change
from kcore.replication.placement import place
from kcore.types import Uuid
from recorder.java_program import printed
from replication.recorded_partition_changes import change_of, may_lead, registration_of, rules_of, targets_of

CHANGES: Final = "kraft_pcb"
PLACEMENT: Final = "placement_striped"
_INPUTS: Final = "4.1.2"  # The newest release whose decisions tests/data has.
_UNASSIGNED: Final = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
_RESULTS: Final = ("record_version", "out", "merged", "error")


def stem_of(path: Path) -> str:
    """The decisions that a file such as `kraft_pcb_4.3.1.jsonl.gz` has."""
    return path.name.rpartition("_")[0]


def inputs(stem: str, default_level: str) -> list[Json]:
    """The recorded cases. Those at the newest recorded level are asked again at the release's default level."""
    found = cases.load(f"{stem}_{_INPUTS}")
    if stem != CHANGES:
        return found
    newest = max(case["metadata_version"] for case in found)
    level = f"IBP_{default_level.replace('.', '_').replace('-', '_')}"
    return [{**case, "metadata_version": level} if case["metadata_version"] == newest else case for case in found]


def recorded(stem: str, given: list[Json], class_path: str) -> list[Json]:
    """The cases with the results of the classes on the class path."""
    text = printed("Decisions.java", class_path, stem, given="".join(json.dumps(each) + "\n" for each in given))
    return [json.loads(line) for line in text.splitlines()]


def changed(stem: str, old: list[Json], new: list[Json]) -> Iterator[Difference]:
    """The cases that the two releases decide otherwise."""
    for before, after in zip(old, new, strict=True):
        left, right = ({name: case.get(name) for name in _RESULTS} for case in (before, after))
        if left != right:
            places = [(path, one, other) for path, one, other in parting(left, right) if not path.startswith("merged")]
            subject = f"{stem} {before.get('op', '')}".strip()
            path, one, other = (places or [*parting(left, right)])[0]
            yield Difference("Kafka decides otherwise", subject, f"case {before['i']}, {path}: {one!r} -> {other!r}")


def differences(stem: str, found: list[Json], release: str) -> Iterator[Difference]:
    """The cases that kcore decides otherwise, by the rules of a release that it has."""
    decide: Callable[[Json, str], tuple[object, object]] = _change if stem == CHANGES else _placed
    for case in found:
        subject = f"{stem} {case.get('op', '')}".strip()
        try:
            wanted, given = decide(case, release)
        except (KcoreError, ValueError, KeyError) as error:
            yield Difference("kcore fails", subject, f"{type(error).__name__}: {error}")
            continue
        if wanted != given:
            yield Difference("kcore decides otherwise", subject, f"case {case['i']}: Kafka {wanted}, kcore {given}")


def _change(case: Json, release: str) -> tuple[object, object]:
    if case["error"]:
        return None, None
    defaults = {int(broker): Uuid(directory) for broker, directory in case["default_dirs"].items()}
    change = partition_change(
        registration_of(case["partition"]),
        rules_of(case, release),
        may_lead=may_lead(case).__contains__,
        election=case["election"].lower(),
        targets=targets_of(case),
        default_directory=lambda broker: defaults.get(broker, _UNASSIGNED),
    )
    return change_of(case["out"]), change


def _placed(case: Json, release: str) -> tuple[object, object]:
    where = {"racks": case["racks"], "fenced": case["fenced"], "seed": case["java_random_seed"]}
    try:
        found = place("striped", case["brokers"], case["partitions"], case["rf"], **where).tolist()
    except KcoreError:
        found = None
    return case["out"], found
