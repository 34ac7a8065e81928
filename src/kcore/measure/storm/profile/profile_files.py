"""Writes the files of a profile into a folder of results: shares, folded stacks, flame graphs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kcore.errors import TargetError
from kcore.measure.report.result_files import write_lines, write_text
from kcore.measure.report.units import duration, short_count
from kcore.measure.storm.profile import flame
from kcore.measure.storm.profile.profile_cell import CellProfile
from kcore.measure.storm.profile.profile_tables import ProfileRow, rows_of
from kcore.spark.java import NoJavaError

ROWS: Final = "profile.jsonl"
_NO_NAME: Final = re.compile(r"[^\w.-]+")  # A target may be a path.
GRAPHS: Final = "profile-*.html, .svg and .folded"


@dataclass(frozen=True, slots=True)
class Written:
    """The contents of the written files."""

    rows: Sequence[ProfileRow] = ()
    drawn: Mapping[str, str] = field(default_factory=dict)  # Flame graphs by the file's name.
    troubles: Sequence[str] = ()  # The files that could not be written, a line each.
    costs: Sequence[str] = ()  # The CPU time of separate sampler processes, a line each.


def write(profiles: Sequence[CellProfile], directory: Path) -> Written:
    """Writes all files into the folder of results."""
    rows = rows_of(profiles)
    write_lines(directory / ROWS, rows)
    drawn, troubles = {}, []
    for name, group in _by_size(profiles).items():
        stacks = flame.stacks_of(group)
        title = f"{group[0].cell}".partition(", repetition")[0]
        write_text(directory / f"{name}.folded", flame.folded_stacks(stacks))
        drawn[name] = flame.drawn(title, stacks)
        write_text(directory / f"{name}.svg", flame.standalone(drawn[name]))
        try:
            flame.write_page(title, directory / f"{name}.folded", directory / f"{name}.html")
        except (TargetError, NoJavaError) as error:
            troubles.append(f"{name}.html is not written: {error}")
    return Written(rows, drawn, troubles, _costs(profiles))


def _costs(profiles: Sequence[CellProfile]) -> list[str]:
    """py-spy's CPU time, a line per cell. async-profiler runs inside the controllers: its CPU time is not known."""
    found = ((profile.cell, profile.sampler_cpu_s) for profile in profiles)
    return [f"py-spy itself took {duration(cpu_s * 1e9)} of CPU time: {cell}" for cell, cpu_s in found if cpu_s]


def file_name(target: str, brokers: int, partitions: int) -> str:
    """The name of the files of one target and size, without the suffix."""
    return f"profile-{_NO_NAME.sub('-', target)}-{short_count(brokers)}x{short_count(partitions)}"


def _by_size(profiles: Sequence[CellProfile]) -> dict[str, list[CellProfile]]:
    groups: dict[str, list[CellProfile]] = {}
    for profile in profiles:
        cell = profile.cell
        groups.setdefault(file_name(cell.target.name, cell.brokers, cell.partitions), []).append(profile)
    return groups
