"""Slow twin of `kcore.storage.indexes.index_batches`: Kafka's LogSegment, a batch at a time."""

Entries = list[tuple[int, int]]


def index_batches(batches: list[dict[str, int]], interval_bytes: int) -> tuple[Entries, Entries]:
    """(last offset, position) and (timestamp, offset) of a closed segment."""
    offsets: Entries = []
    times: Entries = []
    since = 0
    largest, largest_at = -1, -1

    def maybe_append_time() -> None:
        if largest > (times[-1][0] if times else -1):
            times.append((largest, largest_at))

    for batch in batches:
        last_offset = batch["base_offset"] + batch["last_offset_delta"]
        if batch["max_timestamp"] > largest:
            largest, largest_at = batch["max_timestamp"], last_offset
        if since > interval_bytes:
            offsets.append((last_offset, batch["position"]))
            maybe_append_time()
            since = 0
        since += batch["batch_length"] + 12
    maybe_append_time()
    return offsets, times
