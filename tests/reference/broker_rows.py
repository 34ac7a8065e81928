"""The slow twin of `kcore._ext.tables.broker_rows`."""


def is_sound(brokers: list[int], known: int) -> bool:
    """A row is sound if it is brokers of the table, each once, and then nothing but -1."""
    members = brokers[: brokers.index(-1)] if -1 in brokers else brokers
    rest = brokers[len(members) :]
    return all(0 <= each < known for each in members) and len(set(members)) == len(members) and set(rest) <= {-1}
