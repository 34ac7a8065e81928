"""Options that are counts, such as --partitions 10k,1M."""

from kcore.errors import PlanError
from kcore.measure.report.units import parse_counts


def counts_of(option: str, text: str) -> tuple[int, ...]:
    """The counts of an option; PlanError for other text."""
    try:
        return tuple(parse_counts(text))
    except ValueError:
        raise PlanError(f"--{option}: {text!r:.60} is no list of counts such as 20,100 or 10k,1M") from None


def count_of(option: str, text: str, most: int) -> int:
    """The one count of an option; PlanError for other text, and for a count that is not from 1 to `most`."""
    try:
        [count] = parse_counts(text)
    except ValueError:
        raise PlanError(f"--{option}: {text!r:.60} is no count such as 300 or 1M") from None
    if not 1 <= count <= most:
        raise PlanError(f"--{option} {text} is not from 1 to {most:,}")
    return count
