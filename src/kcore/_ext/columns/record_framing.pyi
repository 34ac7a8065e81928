from kcore.types import Int64s, UInt8s

def batch(
    values: UInt8s,
    offsets: Int64s,
    first: int,
    base_offset: int,
    epoch: int,
    time_ms: int,
    most_bytes: int,
    out: UInt8s,
) -> tuple[int, int]: ...
