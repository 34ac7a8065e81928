from kcore.types import Int32s, Int64s, UInt8s

def request_bytes(
    kinds__o: UInt8s,
    path_offsets__o: Int64s,
    data_offsets__o: Int64s,
    acl_bytes: int,
    rows: Int64s,
    sizes: Int64s,
) -> None:
    """Set `sizes` to the bytes of each operation in `rows`; a request has 9 more bytes at its end. ValueError."""

def write_request(
    kinds__o: UInt8s,
    paths: UInt8s | bytes,
    path_offsets__o: Int64s,
    data: UInt8s | bytes,
    data_offsets__o: Int64s,
    versions__o: Int32s,
    acl: bytes,
    rows: Int64s,
    out: UInt8s,
) -> None:
    """Write the body of `multi` or `multiRead`: the operations in `rows`, in that order.

    Kinds are ZooKeeper's opcodes; the version of a create is its flags (1: ephemeral). ValueError for columns of wrong
    lengths, an unknown operation, or an `out` of the wrong size.
    """

def parse_results(
    answer: UInt8s | bytes,
    begin: int,
    errors__o: Int32s,
    data__eo: Int64s,
    versions__o: Int32s,
    zxids__ko: Int64s,
) -> int:
    """Read an answer's results from byte `begin` on; returns their number, -1 for an invalid or a too long answer.
    `data__eo`: the begin and end of each result's data; `zxids__ko`: czxid, and the owner's session of an ephemeral.
    """
