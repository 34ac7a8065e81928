"""Which state a node is in, and the ways between the states. Source: QuorumState."""

from kcore.raft.states import Leader, State, Unattached


class Quorum:
    """The state of the node `node`; the epoch, the leader and the vote in it are those of the state.

    `high_watermark` is None until this state knows one: a new leader forgets it, so that what it exposes never goes
    back (`following.py` and `leading.py` set it).
    """

    __slots__ = ("high_watermark", "state")

    def __init__(self) -> None:
        self.state: State = Unattached(0, -1, None, 0)
        self.high_watermark: int | None = None

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def is_leader(self) -> bool:
        return type(self.state) is Leader
