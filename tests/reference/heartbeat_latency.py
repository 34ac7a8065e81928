"""Latencies of heartbeats without coordinated omission, as a list: the slow twin of `Histogram::add_due`."""


def latencies(due_ns: int, interval_ns: int, answered_ns: int) -> list[int]:
    """The latencies of the heartbeat that was due first, and of all that were due and not sent before the answer."""
    found = [answered_ns - due_ns]
    while interval_ns > 0 and due_ns + interval_ns < answered_ns:
        due_ns += interval_ns
        found.append(answered_ns - due_ns)
    return found
