"""The build under a target's name: release, JVM, options, properties and jars, as columns of results and a table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from kcore.extras import needs

with needs("report"):
    import pyarrow as pa

COLUMNS: Final = (
    ("build", pa.string()),
    ("release", pa.string()),
    ("jvm", pa.string()),
    ("jvm_options", pa.list_(pa.string())),
    ("properties", pa.list_(pa.string())),
    ("jars_sha256", pa.string()),
)
"""The Arrow columns of `Build.as_row`; results of older versions have null in all of them."""
HEAD: Final = ("target", "build", "release", "JVM", "JVM options", "properties", "SHA-256 of the jars")
_DIGITS: Final = 16  # A table shows so many digits of a SHA-256; the results have all.


@dataclass(frozen=True, slots=True)
class Build:
    """The software of a target. None: unknown, or without a meaning for the target."""

    build: str | None = None  # As --target names it, without the label.
    release: str | None = None  # As the process itself prints it.
    jvm: str | None = None  # Name, version and vendor, as the JVM prints them.
    jvm_options: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()  # Lines NAME=VALUE that the user added.
    jars_sha256: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row of results; unknown columns are None."""
        lists = {name: tuple(row.get(name) or ()) for name in ("jvm_options", "properties")}
        return cls(row.get("build"), row.get("release"), row.get("jvm"), jars_sha256=row.get("jars_sha256"), **lists)

    def as_row(self) -> dict[str, Any]:
        """Plain values by name."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: [*value] if isinstance(value, tuple) else value for name, value in found.items()}

    def differences(self, other: "Build") -> list[str]:
        """The known values that differ in another run of the same target, in words."""
        pairs = ((each.name, getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return [
            f"{name.replace('_', ' ')}: {_text(mine)} in the old run, {_text(its)} in the new one"
            for name, mine, its in pairs
            if mine is not None and its is not None and mine != its
        ]


def builds_of(rows: Iterable[Mapping[str, Any]], name: str) -> dict[str, Build]:
    """The builds by target, from rows with a column `name` for the target; without rows that name no build."""
    return {row[name]: Build.of(row) for row in rows if row.get("build") is not None}


def build_lines(builds: Mapping[str, Build]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table, without the columns that are empty for all targets."""
    lines = [
        [name, *map(_text, (its.build, its.release, its.jvm, its.jvm_options, its.properties)),
         (its.jars_sha256 or "")[:_DIGITS]]
        for name, its in builds.items()
    ]  # fmt: skip
    shown = [at for at, _ in enumerate(HEAD) if any(line[at] for line in lines)]
    if all(line[0] == line[1] for line in lines):
        shown = [at for at in shown if HEAD[at] != "build"]
    return [HEAD[at] for at in shown], [[line[at] for at in shown] for line in lines]


def _text(value: str | tuple[str, ...] | None) -> str:
    return " ".join(value) if isinstance(value, tuple) else value or ""
