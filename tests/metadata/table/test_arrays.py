"""Conversions of callers' arrays."""

import numpy as np

from kcore.metadata.table.arrays import together


def test_columns_that_are_put_together_keep_their_values() -> None:
    few = {"leader__p": np.arange(10, dtype=np.int16)}
    assert together(few)["leader__p"] is few["leader__p"]
    count = 100_000
    columns = {
        "replicas__ps": np.arange(3 * count, dtype=np.int16).reshape(count, 3),
        "recovery__p": np.arange(count).astype(np.int8),
        "epoch__p": np.arange(count, dtype=np.int32),
    }
    packed = together(columns)
    assert list(packed) == list(columns)
    for name, array in columns.items():
        assert packed[name].dtype == array.dtype and np.array_equal(packed[name], array)
        assert packed[name].flags.c_contiguous and not np.shares_memory(packed[name], array)
        assert packed[name].ctypes.data % 64 == 0
    begins = [array.ctypes.data for array in packed.values()]
    ends = [array.ctypes.data + array.nbytes for array in packed.values()]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert len({begin % 4096 for begin in begins}) == len(begins)
