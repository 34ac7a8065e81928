"""Protects kernels from buffers that other threads may change meanwhile.

A kernel checks lengths first and moves bytes afterwards: a length that changes in between would move bytes beyond the
end. Immutable buffers are read in place; others are copied first.
"""

from mmap import mmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kcore._ext.records import Column
from kcore.errors import NotBytesError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.


_BYTES_OR_INTEGERS: Final = frozenset("cbB?hHiIlLqQnNs")  # The last letter of a struct module's format.


def immutable(data: "Buffer", *, mapped: bool = False) -> memoryview:
    """The bytes of a contiguous buffer as one immutable dimension.

    `bytes` and views of them (memoryviews, NumPy arrays) are used in place. Anything else is copied, also a mapped file
    or a read-only view of a writable buffer. With `mapped`, a file that is mapped read-only is used in place: for
    kernels that read each byte once and check everything that depends on it. NotBytesError for an object without bytes.
    """
    view = bytes_of(data)
    return view if is_immutable(view, mapped=mapped) else memoryview(bytes(view))


def bytes_of(data: "Buffer") -> memoryview:
    """The bytes of a contiguous buffer, in place and as one dimension. NotBytesError for anything else."""
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
    """True if the view's bytes are immutable. With `mapped`, a read-only mapping counts as immutable."""
    owner: object = view.obj
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return type(owner) in (bytes, Column) or (mapped and view.readonly and isinstance(owner, mmap))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be made writable again, because it is a view of a read-only buffer."""
    return np.asarray(array.data.toreadonly())
