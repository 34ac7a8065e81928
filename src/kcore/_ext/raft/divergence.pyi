from kcore.types import Int32s, Int64s

def end_offsets(
    epochs: Int32s,
    starts: Int64s,
    rows: Int64s,
    log_ends__p: Int64s,
    requested__p: Int32s,
    epochs__p: Int32s,
    end_offsets__p: Int64s,
) -> None: ...
def truncation_rounds(
    epochs: Int32s,
    starts: Int64s,
    rows: Int64s,
    log_ends__p: Int64s,
    follower_epochs: Int32s,
    follower_starts: Int64s,
    follower_rows: Int64s,
    follower_log_ends__p: Int64s,
    high_watermarks__p: Int64s,
    offsets__p: Int64s,
    rounds__p: Int32s,
) -> None: ...
