"""Buffers that other threads may change while a kernel reads them.

Kernels look at lengths first and move bytes afterwards: bytes that change in between would be moved beyond their end.
Immutable buffers are read in place; others are copied first.
"""

from mmap import mmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kcore._ext.records import Column
from kcore.errors import NotBytesError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.


_BYTES_OR_INTEGERS: Final = frozenset("cbB?hHiIlLqQnNs")  # The last letter of a format of the struct module.


def immutable(data: "Buffer", *, mapped: bool = False) -> memoryview:
    """The bytes of a contiguous buffer as one dimension, immutable.

    In place: `bytes`, and views of them (memoryviews, NumPy arrays). A copy: all else, also a read-only view of a
    writable buffer, such as a bytearray, and a mapped file. With `mapped`, a file that is mapped read-only is left in
    place: for kernels that look at a place once, and check what follows from it. NotBytesError for what is no bytes.
    """
    view = bytes_of(data)
    return view if is_immutable(view, mapped=mapped) else memoryview(bytes(view))


def bytes_of(data: "Buffer") -> memoryview:
    """The bytes of a contiguous buffer where they are, as one dimension. NotBytesError for anything else."""
    try:
        view = memoryview(data)
        if view.format[-1:] not in _BYTES_OR_INTEGERS:
            raise NotBytesError(f"expected bytes, not {type(data).__name__} of items of the format {view.format}")
        if not view.c_contiguous:
            raise NotBytesError(f"expected bytes, and this {type(data).__name__} is not contiguous")
        return view.cast("B") if view.nbytes else memoryview(b"")
    except (TypeError, ValueError, BufferError) as error:
        if isinstance(error, NotBytesError):
            raise
        raise NotBytesError(f"expected bytes, not {type(data).__name__}: {error}") from None


def is_immutable(view: memoryview, *, mapped: bool = False) -> bool:
    """Whether the view's bytes are immutable. With `mapped`, a read-only mapping counts as immutable."""
    owner: object = view.obj
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return type(owner) in (bytes, Column) or (mapped and view.readonly and isinstance(owner, mmap))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that nobody can make writable again: what it is a view of is a read-only buffer."""
    return np.asarray(array.data.toreadonly())
