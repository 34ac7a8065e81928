"""The meaning of colours on all pages and pictures: one for each system, others for the phases of a scenario.

The colours are placeholders. `svg` replaces them by the page's CSS variables, which differ in light and dark mode.
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

INK, FAINT, RULE, PAGE, BAD, GOOD = "#010101", "#020202", "#030303", "#050505", "#060606", "#060607"
KCORE, KAFKA, KCORE_ZK, KAFKA_ZK = "#070701", "#070702", "#070703", "#070704"
PHASES: Final = ("#080801", "#080802", "#080803", "#080804", "#080805")
SERIES: Final = ("#040401", "#040402", "#040403", "#040404", "#040405", "#040406", "#040407", "#040408")
"""Colours for anything that is neither a system nor a phase, such as the operations of one benchmark."""
VARIABLES: Final = {
    **{INK: "--ink", FAINT: "--faint", RULE: "--rule", PAGE: "--page", BAD: "--bad", GOOD: "--good"},
    **{KCORE: "--kcore", KAFKA: "--kafka", KCORE_ZK: "--kcore-zk", KAFKA_ZK: "--kafka-zk"},
    **{color: f"--phase-{nth}" for nth, color in enumerate(PHASES)},
    **{color: f"--series-{nth}" for nth, color in enumerate(SERIES)},
}
LIGHT: Final = {
    "--page": "#ffffff", "--ink": "#1b1f24", "--faint": "#5d6673", "--rule": "#dde1e6", "--panel": "#f6f7f9",
    "--bad": "#b3261e", "--good": "#1a7f4b", "--warn": "#8a5a00",
    "--kcore": "#0b62c4", "--kafka": "#c2500a", "--kcore-zk": "#0a3566", "--kafka-zk": "#6b2d08",
    "--phase-0": "#d3d9e0", "--phase-1": "#9aa5b1", "--phase-2": "#4c2a85", "--phase-3": "#8862c0",
    "--phase-4": "#c0a9e2",
    "--series-0": "#12805c", "--series-1": "#8a3ffc", "--series-2": "#6b6f00", "--series-3": "#b0126a",
    "--series-4": "#007d9c", "--series-5": "#56616e", "--series-6": "#7a1f2b", "--series-7": "#3d5a1e",
}  # fmt: skip
DARK: Final = {
    "--page": "#14171b", "--ink": "#e8eaed", "--faint": "#a0a8b4", "--rule": "#343a42", "--panel": "#1d2126",
    "--bad": "#ff8a80", "--good": "#6fd6a0", "--warn": "#f0c14b",
    "--kcore": "#6cb0ff", "--kafka": "#ff9e57", "--kcore-zk": "#c3dfff", "--kafka-zk": "#ffd9bd",
    "--phase-0": "#343c45", "--phase-1": "#5d6874", "--phase-2": "#8a63cf", "--phase-3": "#b598e6",
    "--phase-4": "#e0d2f7",
    "--series-0": "#4fd1a5", "--series-1": "#c1a0ff", "--series-2": "#d6d14a", "--series-3": "#ff8cc6",
    "--series-4": "#54d3f0", "--series-5": "#b4bfcb", "--series-6": "#ff9aa8", "--series-7": "#a5d36b",
}  # fmt: skip
_OTHERS: Final = (SERIES[1], SERIES[3], SERIES[4], SERIES[0])
MARKERS: Final = "osD^vPX*"
_DASHES: Final = ("-", "--", ":", "-.")


def color_of(system: str) -> str:
    """The colour of a system. It depends only on the name, so that it is the same on every page.

    All releases of Kafka have one colour, and ZooKeeper mode another shade; other names get a colour by their hash.
    """
    name = system.lower()
    in_zookeeper = name.endswith("-zk") or "(zk)" in name
    if name.startswith("kcore"):
        return KCORE_ZK if in_zookeeper else KCORE
    if name.startswith(("kafka", "java")):
        return KAFKA_ZK if in_zookeeper else KAFKA
    return _OTHERS[crc32(name.encode()) % len(_OTHERS)]


def marker_of(system: str, systems: Sequence[str]) -> str:
    """A marker that tells systems of one colour apart."""
    return MARKERS[_place(system, systems) % len(MARKERS)]


def dash_of(system: str, systems: Sequence[str]) -> str:
    """A dash pattern that tells the lines of systems of one colour apart."""
    return _DASHES[_place(system, systems) % len(_DASHES)]


def _place(system: str, systems: Sequence[str]) -> int:
    """The number of a system among the systems of its colour."""
    return [name for name in dict.fromkeys(systems) if color_of(name) == color_of(system)].index(system)


def css(variables: dict[str, str]) -> str:
    """The colours as declarations of a style sheet."""
    return " ".join(f"{name}: {value};" for name, value in variables.items())
