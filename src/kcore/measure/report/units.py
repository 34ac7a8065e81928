"""Writes durations, sizes and counts as people read them."""

from math import log10


def three_digits(value: float) -> str:
    """Three significant digits, no exponent: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - int(log10(abs(value)) // 1))
    return f"{value:,.{decimals}f}"


def _scaled(value: float, step: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if abs(value) < step:
            return f"{three_digits(value)} {unit}".rstrip()
        value /= step
    return f"{three_digits(value)} {units[-1]}"


def duration(ns: float | None) -> str:
    """Nanoseconds as ns, µs, ms or s."""
    return "" if ns is None else _scaled(ns, 1_000, ("ns", "µs", "ms", "s"))


def short_duration(ns: float) -> str:
    """Nanoseconds for an axis: 20 µs, 1 ms, 0."""
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(ns) >= scale:
            return f"{ns / scale:.4g} {unit}"
    return f"{ns:.4g} ns" if ns else "0"


def time_left(done: int, total: int, elapsed_s: float) -> str:
    """A text such as "about 40 s left", at the speed so far; empty before the first and after the last of `total`."""
    if not 0 < done < total:
        return ""
    left_s = elapsed_s / done * (total - done)
    for scale, unit in ((3_600, "h"), (60, "min")):
        if left_s >= 1.5 * scale:
            return f"about {left_s / scale:.0f} {unit} left"
    return f"about {left_s:.0f} s left"


def size(count: float | None) -> str:
    """Bytes as B, KiB, MiB or GiB."""
    return "" if count is None else _scaled(count, 1_024, ("B", "KiB", "MiB", "GiB"))


def quantity(count: float | None) -> str:
    """A count with k, M or G."""
    return "" if count is None else _scaled(count, 1_000, ("", "k", "M", "G"))


def short_count(count: float) -> str:
    """A count for an axis: 500, 10k, 1M."""
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{count / scale:g}{unit}"
    return f"{count:g}"


def parse_counts(text: str) -> list[int]:
    """Counts from "10k,100k,1M"; ValueError for anything else."""
    return [_parse_count(part.strip()) for part in text.split(",")]


def _parse_count(text: str) -> int:
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text[:-1] if scale > 1 else text) * scale
