"""Reads who holds `/controller`, and handles a holder that has this controller's id."""

import logging
from typing import Final, NamedTuple

from kcore.errors import ElectionRefusedError, TableError
from kcore.metadata.zookeeper import znodes
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.session import OnWatch

logger = logging.getLogger(__name__)
GRACE_S: Final = 5.0  # ZooKeeper expires sessions only at ticks, and not before two ticks have passed.


class Holder(NamedTuple):
    """The content of `/controller`."""

    broker_id: int | None  # None: the znode is unreadable.
    session: int  # The session that created it; 0: the znode is persistent.
    is_here: bool  # This process's session created it.


async def read_holder(zookeeper: ZookeeperClient, on_watch: OnWatch) -> Holder | None:
    """Reads and watches `/controller`; None if there is no controller."""
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
    """Detects another controller that runs with this controller's id.

    If another session holds `/controller` with this id, its process may also have died without closing the session,
    which then expires. So the session is given twice this controller's time-out; if it still exists, its process runs.
    """

    def __init__(self, broker_id: int, session_timeout_s: float) -> None:
        self.wait_s = 2 * session_timeout_s + GRACE_S
        self._broker_id = broker_id
        self._session, self._until_s = 0, 0.0

    def is_new(self, session: int, now_s: float) -> bool:
        """True if the session is seen for the first time; then check again after `wait_s`.

        ElectionRefusedError if the session still exists after that time.
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
            "controller %s is active in another session, %#x: another controller runs with this id, or it died "
            "without closing its session; waiting %.0f s for the session to expire",
            *(self._broker_id, session, self.wait_s),
        )
        return True
