"""The check of rows of brokers against its slow twin."""

from itertools import product

import numpy as np

from kcore._ext.tables.broker_rows import first_unsound
from reference import broker_rows as reference


def test_soundness_of_every_small_row() -> None:
    for row in product(range(-2, 4), repeat=3):
        assert (first_unsound(np.array([row], np.int16), 3) == -1) == reference.is_sound(list(row), 3), row


def test_the_first_unsound_row_is_named() -> None:
    rows = np.array([[0, 1], [1, -1], [1, 1], [9, 0]], np.int16)
    assert first_unsound(rows, 3) == 2
    assert first_unsound(rows[:2], 3) == -1
    assert first_unsound(rows[3:], 3) == 0
    assert first_unsound(np.empty((0, 2), np.int16), 0) == -1
    assert first_unsound(np.empty((2, 0), np.int16), 0) == -1
