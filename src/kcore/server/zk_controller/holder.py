"""The holder of `/controller`, and the case of a holder with this controller's id."""

import logging
from typing import Final, NamedTuple

from kcore.errors import ElectionRefusedError, TableError
from kcore.metadata.zookeeper import znodes
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.session import OnWatch

logger = logging.getLogger(__name__)
GRACE_S: Final = 5.0  # ZooKeeper ends sessions by the tick, and none sooner than after two ticks.


class Holder(NamedTuple):
    """Whom `/controller` names."""

    broker_id: int | None  # None: it cannot be read
    session: int  # that has made it; 0: none, it is persistent
    is_here: bool  # This session has made it.


async def read_holder(zookeeper: ZookeeperClient, on_watch: OnWatch) -> Holder | None:
    """None if there is no controller; changes are watched from now on."""
    [node] = await zookeeper.read_nodes([znodes.CONTROLLER], on_watch)
    stat = await zookeeper.stat(znodes.CONTROLLER) if node is not None else None
    if node is None or stat is None:  # If it was deleted meanwhile, the watch fires.
        return None
    try:
        broker_id: int | None = znodes.decode_controller(node.data).broker_id
    except TableError as error:
        logger.warning("the controller is unknown until this znode changes: %s", error)
        broker_id = None
    session = stat.ephemeralOwner
    return Holder(broker_id, session, bool(session) and session == zookeeper.session.id)


class Twin:
    """A controller of our own id in a session that is not ours.

    Either another controller runs under that id, or one has ended without closing its session: then `/controller` goes
    when that session times out. So the session is given twice our own time-out, and if the session is still there, so
    is the other controller.
    """

    def __init__(self, broker_id: int, session_timeout_s: float) -> None:
        self.wait_s = 2 * session_timeout_s + GRACE_S
        self._broker_id = broker_id
        self._session, self._until_s = 0, 0.0

    def is_new(self, session: int, now_s: float) -> bool:
        """Whether it is seen for the first time: check again after `wait_s`.

        ElectionRefusedError if it is still there.
        """
        if session == self._session:
            if now_s < self._until_s:
                return False
            raise ElectionRefusedError(
                f"another controller runs under id {self._broker_id}, in ZooKeeper session {session:#x}: give this one "
                "another id (--broker-id)"
            )
        self._session, self._until_s = session, now_s + self.wait_s
        logger.warning(
            "controller %s is active in another session, %#x: another one of this id runs, or it has ended a short "
            "while ago without closing its session; waiting %.0f s to know which",
            *(self._broker_id, session, self.wait_s),
        )
        return True
