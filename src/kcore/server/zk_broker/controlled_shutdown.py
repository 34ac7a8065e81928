"""The controlled shutdown of a ZooKeeper-mode broker (KafkaServer.controlledShutdown of 3.9.1)."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.protocol_errors import Errors
from kcore.schema.controlled_shutdown import ControlledShutdownRequest
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import Choose, ControllerClient

logger = logging.getLogger(__name__)
SHUTDOWN_TRIES: Final = 3  # controlled.shutdown.max.retries
SHUTDOWN_BACKOFF_S: Final = 5.0  # controlled.shutdown.retry.backoff.ms


async def controlled_shutdown(channel: ControllerClient, manager: ReplicaManager, session_s: float) -> None:
    """Requests a controlled shutdown, with the newest broker epoch in each try (KIP-380).

    `session_s`: the time-out of a try.
    """

    def make(choose: Choose) -> tuple[Message, int]:
        request = ControlledShutdownRequest(broker_id=manager.broker_id, broker_epoch=manager.broker_epoch)
        return request, choose(ControlledShutdownRequest)

    for tried in range(SHUTDOWN_TRIES):
        if tried:
            await asyncio.sleep(SHUTDOWN_BACKOFF_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(session_s):
                answer = await channel.ask(make)
                if answer.error_code == Errors.NONE and not answer.remaining_partitions:
                    logger.info("controlled shutdown: all leaders are moved")
                    return
                left = len(answer.remaining_partitions)
                logger.info("controlled shutdown: error %s, %s leaders left", answer.error_code, left)
    logger.warning("controlled shutdown did not succeed")
