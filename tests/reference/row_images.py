"""The slow twin of `kcore._ext.tables.row_images`."""

from typing import Any

Image = tuple[Any, ...]


def save(columns: list[list[Any]], rows: list[int]) -> list[Image]:
    """A row's image is what each column has in it."""
    return [tuple(column[row] for column in columns) for row in rows]


def restore(columns: list[list[Any]], rows: list[int], images: list[Image]) -> None:
    """Each row becomes what its first image says."""
    for row, image in reversed(list(zip(rows, images, strict=True))):
        for column, value in zip(columns, image, strict=True):
            column[row] = value
