"""Divergence in plain Python, one sentence a line: the slow twins of `kcore._ext.raft.divergence`."""

Table = list[tuple[int, int]]


def end_offset(table: Table, log_end: int, requested: int) -> tuple[int, int]:
    """The largest epoch up to the requested one, and where the next one starts."""
    if requested == -1:
        return -1, -1
    if table and table[-1][0] == requested:
        return requested, log_end
    if not any(epoch > requested for epoch, _ in table):
        return -1, -1
    next_start = min(start for epoch, start in table if epoch > requested)
    return max([epoch for epoch, _ in table if epoch <= requested], default=requested), next_start


def truncation(leader: Table, leader_end: int, follower: Table, follower_end: int, watermark: int) -> tuple[int, int]:
    """Ask for the latest epoch, truncate, and ask again until both agree: (offset, rounds)."""
    rounds = 1
    while follower:
        epoch, end = end_offset(leader, leader_end, follower[-1][0])
        if end == -1:
            return watermark, rounds
        own_epoch, own_end = end_offset(follower, follower_end, epoch)
        if own_epoch == epoch:
            return min(own_end, end, follower_end), rounds
        follower_end = watermark = min(own_end, follower_end)
        follower = [entry for entry in follower if entry[1] < follower_end]
        rounds += 1
    return watermark, rounds
