"""Compares the CPU time of both sides under a security protocol with the CPU time in plaintext."""

from collections.abc import Sequence
from typing import Final

from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.report.units import duration, three_digits
from kcore.measure.storm.report_rows import Row, is_good
from kcore.net.request_context import PLAINTEXT

_SIDES: Final = {"controller_cpu_s": "the controllers", "own_cpu_s": "the hollow brokers"}


def is_secured(row: Row) -> bool:
    """True if the connections had TLS or SASL; rows of earlier versions of kcore do not say it, and had neither."""
    return row.get("security") not in (None, "", PLAINTEXT)


def security_costs(rows: Sequence[Row]) -> list[str]:
    """A line for each target of `--secure`: the CPU time of both sides, divided by that of the plaintext target."""
    lines = []
    for target, protocol in dict.fromkeys((row["target"], row["security"]) for row in rows if is_secured(row)):
        plain = {_key(row): row for row in rows if f"{row['target']}+{protocol}" == target}
        secured = [row for row in rows if row["target"] == target and is_good(row)]
        pairs = [(row, plain[_key(row)]) for row in secured if is_good(plain.get(_key(row), row | {"valid": False}))]
        if costs := [text for name, side in _SIDES.items() if (text := _cost(name, side, pairs))]:
            scenarios = f"{len(pairs)} scenario{'s' * (len(pairs) > 1)}"
            lines.append(f"{target}, compared with plaintext over {scenarios}: {'; '.join(costs)}")
    return lines


def _key(row: Row) -> tuple[str, int, int]:
    return row["scenario"], row["wanted_brokers"], row["wanted_partitions"]


def _cost(name: str, side: str, pairs: Sequence[tuple[Row, Row]]) -> str:
    known = [(row[name], plain[name]) for row, plain in pairs if NOT_KNOWN not in (row[name], plain[name])]
    secured, plain = (sum(column) for column in zip(*known, strict=True)) if known else (0.0, 0.0)
    if plain <= 0:
        return ""
    times = f"{duration(secured * 1e9)}, not {duration(plain * 1e9)}"
    return f"{side} take {three_digits(secured / plain)} times the CPU time ({times})"
