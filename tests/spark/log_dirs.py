"""Two log directories that differ, for the tests here."""

from pathlib import Path

import pytest

from storage.building import batch, batches, write_log

COUNT = 23


@pytest.fixture(scope="module")
def log_dirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Every fifth partition differs at an offset of its own, one ends early, and each side lacks one."""
    a, b = (tmp_path_factory.mktemp(name) for name in "ab")
    for number in range(COUNT):
        made = batches(8)
        other = [*made]
        if number % 5 == 0:
            other[number // 5] = batch(number // 5, [b"other"], epoch=3)
        write_log(a / f"t-{number}", {0: b"".join(made)}, [(0, 0)])
        write_log(b / f"t-{number}", {0: b"".join(other[: 3 if number == 7 else 8])}, [(0, 0), (3, number // 5)])
    write_log(a / "only-0", {40: b""})
    write_log(b / "other-0", {0: b""})
    return a, b
