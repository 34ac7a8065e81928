"""The slow twin of `kcore._ext.tables.uuid_index`."""


def row_of(puts: list[tuple[int, bytes]], dropped: set[int], uuid: bytes) -> int:
    """The row that got the id last, unless that row was removed since; -1 for none."""
    last = next((k for k in reversed(range(len(puts))) if puts[k][1] == uuid), None)
    return -1 if last is None or last in dropped else puts[last][0]
