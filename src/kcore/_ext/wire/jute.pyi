from kcore.types import Int32s, Int64s, UInt8s

def request_bytes(
    kinds__o: UInt8s,
    path_offsets__o: Int64s,
    data_offsets__o: Int64s,
    acl_bytes: int,
    rows: Int64s,
    sizes: Int64s,
) -> None:
    """The request bytes of each operation in `rows`; the end of the list takes 9 more."""

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

    Kinds are ZooKeeper's opcodes; the version of a create is its flags (1: ephemeral). ValueError for columns that do
    not fit together.
    """

def parse_results(
    answer: UInt8s | bytes,
    begin: int,
    errors__o: Int32s,
    data__eo: Int64s,
    versions__o: Int32s,
    zxids__ko: Int64s,
) -> int:
    """The number of results from `begin` on; -1 if they are not an answer, or more than the columns are long.
    `data__eo`: where the data begins and ends; `zxids__ko`: czxid and the session of an ephemeral's owner.
    """
