"""Kernels that convert messages to columns and back, by a program of `kcore.wire.layout`.

`measure` checks every length and counts rows. Then the caller allocates all columns at once, and `fill` writes them.
Records with the same lengths, counts and nulls have the same layout and are copied in blocks. Others are copied field
by field, or one by one.

- `column_tables`, `program.pxd`: the program, and loads and stores of both byte orders.
- `columns_read`: bytes to columns; `walk.pxd` is its state. `layout_read`, `runs_read` and `mixed_read` make it fast.
- `columns_size`, `columns_write`: columns to bytes. `layout_write`, `runs_write` and `mixed_write` make it fast.
- `steps.pxd`, `fused.pxd`: a layout as steps, and steps that copy several fields at once.
- `mixed.pxd`: records that differ only in the lengths of a few vectors.
- `vectors`: columns of strings.
- `record_framing`: writes record values as uncompressed batches.
"""
