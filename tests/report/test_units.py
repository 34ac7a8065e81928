import pytest

from kcore.measure.report import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (0.1234, "0.123 ns"),
        (12.34, "12.3 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (12_345_678, "12.3 ms"),
        (2.5e9, "2.50 s"),
        (7.2e12, "7,200 s"),
        (None, ""),
    ],
)
def test_durations(ns: float | None, text: str):
    assert units.duration(ns) == text


def test_sizes_and_quantities():
    assert units.size(1023) == "1,023 B"
    assert units.size(3 << 30) == "3.00 GiB"
    assert units.quantity(5) == "5.00"
    assert units.quantity(178_000_000) == "178 M"


def test_counts_as_people_type_them():
    assert units.parse_counts("10k, 100,1M") == [10_000, 100, 1_000_000]
    for bad in ("", "k", "1,", "1.5k", "ten"):
        with pytest.raises(ValueError, match="invalid literal"):
            units.parse_counts(bad)
