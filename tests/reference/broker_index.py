"""The broker index, said plainly."""

Replicas = dict[int, list[int]]  # Partition row -> broker rows.


def rows(replicas: Replicas, broker_row: int) -> list[int]:
    """A partition is in the broker's list if the broker is among its replicas. The list ascends."""
    return sorted(row for row, brokers in replicas.items() if broker_row in brokers)


def is_sound(brokers: list[int], known: int) -> bool:
    """A row is sound if it is brokers of the table, each once, and then nothing but -1."""
    members = brokers[: brokers.index(-1)] if -1 in brokers else brokers
    rest = brokers[len(members) :]
    return all(0 <= each < known for each in members) and len(set(members)) == len(members) and set(rest) <= {-1}
