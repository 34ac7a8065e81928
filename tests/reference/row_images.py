"""The slow twin of `kcore._ext.tables.row_images`."""

from typing import Any

Image = tuple[Any, ...]


def save(columns: list[list[Any]], rows: list[int]) -> list[Image]:
    """A row's image is the row of each column."""
    return [tuple(column[row] for column in columns) for row in rows]


def restore(columns: list[list[Any]], rows: list[int], images: list[Image]) -> None:
    """Each row is restored from its first image."""
    for row, image in reversed(list(zip(rows, images, strict=True))):
        for column, value in zip(columns, image, strict=True):
            column[row] = value
