"""A broker's replicas with the receiver of a ZooKeeper-mode controller's requests."""

from random import Random
from typing import Any, Final

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetch_sessions import FetchSessionCache
from kcore.broker.replicas.replica_manager import Logs, ReplicaManager
from kcore.broker.zk_control.control_requests import ControlRequests
from kcore.wire.columns import Columns

SESSIONS: Final = 100


class ControlledManager(ReplicaManager):
    """The replicas and the receiver, as in a ZooKeeper-mode broker's process."""

    def __init__(self, config: BrokerConfig, broker_epoch: int, logs: Logs) -> None:
        dice = Random(broker_epoch)
        super().__init__(config, broker_epoch, logs, FetchSessionCache(SESSIONS, dice.randrange))
        self.requests = ControlRequests(self)

    def control(self, message: Any, version: int, request: Columns, now_ms: int) -> bytes:
        """The encoded response to a control request."""
        return self.requests.answer_columns(message, version, request, now_ms)
