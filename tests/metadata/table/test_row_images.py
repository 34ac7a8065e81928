"""Rows saved and restored match the plain definition, also over columns that were widened or added in between."""

from random import Random

import numpy as np
import pytest

from kcore._ext.tables import row_images as kernels
from reference import row_images as twin


def layout_of(columns: list[np.ndarray], widths: list[int], fill: int = 0xFF) -> np.ndarray:
    begins = np.cumsum([0, *widths])[:-1]
    return np.array([[begin, width, fill] for begin, width in zip(begins, widths, strict=True)], np.int64)


def test_as_the_twin() -> None:
    dice, rng = Random(1), np.random.default_rng(1)
    for _ in range(200):
        columns = [
            rng.integers(0, 99, 9).astype(np.int32),
            rng.integers(0, 99, (9, 3)).astype(np.int16),
            rng.integers(0, 99, 9).astype(np.int8),
        ]
        slow = [column.tolist() for column in columns]
        rows = [dice.randrange(9) for _ in range(dice.randrange(12))]
        images = np.zeros((15, 11), np.uint8)
        kernels.save(tuple(columns), np.array(rows, np.int32), images, 3)
        saved = twin.save(slow, rows)
        for row in rows:
            columns[0][row] = columns[1][row] = columns[2][row] = slow[0][row] = slow[2][row] = 100
            slow[1][row] = [100] * 3
            assert columns[1][row].tolist() == slow[1][row]
        layout = layout_of(columns, [4, 6, 1])
        kernels.restore(tuple(columns), np.array(rows, np.int32), images[3:], layout)
        twin.restore(slow, rows, saved)
        assert [column.tolist() for column in columns] == slow


def test_wider_columns_and_new_ones_are_filled() -> None:
    narrow = np.array([[1, 2], [3, 4]], np.int16)
    images = np.zeros((1, 4), np.uint8)
    kernels.save((narrow,), np.array([1], np.int32), images, 0)
    wide, fresh = np.full((2, 3), 9, np.int16), np.full((2, 2), 9, np.int32)
    kernels.restore((wide, fresh), np.array([1], np.int32), images, np.array([[0, 4, 0xFF], [4, 0, 0]], np.int64))
    assert wide.tolist() == [[9, 9, 9], [3, 4, -1]] and fresh.tolist() == [[9, 9], [0, 0]]


@pytest.mark.parametrize("layout", [[[0, 8, 0]], [[2, 4, 0]], [[-1, 4, 0]], [[0, 4, 0], [0, 0, 0]]])
def test_a_layout_beyond_the_images_is_refused(layout: list[list[int]]) -> None:
    with pytest.raises(AssertionError):
        kernels.restore(
            (np.zeros((2, 2), np.int16),),
            np.array([0], np.int32),
            np.zeros((1, 4), np.uint8),
            np.array(layout, np.int64),
        )
