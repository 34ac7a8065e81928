"""The entries of a segment's transaction index (KIP-98): transactions that were aborted."""

from kcore.schema.kinds import int64
from kcore.schema.structure import Data


class AbortedTxn(Data, versions="0", flexible="none"):
    """An aborted transaction with records in the segment's partition."""

    producer_id: int64
    first_offset: int64  # The transaction's first record.
    last_offset: int64  # The marker that ends the transaction.
    last_stable_offset: int64  # The last stable offset after the marker was written.
