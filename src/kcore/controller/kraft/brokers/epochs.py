"""Whether the present incarnation of a broker sent a request (KIP-380)."""

from kcore.metadata.table.broker_table import BrokerTable


def registered_row(brokers: BrokerTable, broker_id: int, epoch: int | None = None) -> int | None:
    """The row of a registered broker, with this epoch if one is given; None otherwise (checkBrokerEpoch)."""
    if broker_id not in brokers:
        return None
    row = brokers.row(broker_id)
    is_current = brokers.registered__b[row] and (epoch is None or brokers.epochs[row] == epoch)
    return row if is_current else None
