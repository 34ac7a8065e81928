"""The events that a controller queues at intervals; a standby ignores them."""

import asyncio
from typing import Final

from kcore.controller.zk import events
from kcore.controller.zk.active import ActiveController
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.server.clock import wall_ms
from kcore.server.zk_controller.broker_channel import BrokerChannels
from kcore.server.zk_controller.event_queue import EventQueue

TICK_S: Final = 0.5
FIRST_REBALANCE_S: Final = 5.0  # After the failover, until the first preferred election, as in KafkaController.


async def elect_preferred(config: ControllerConfig, queue: EventQueue) -> None:
    """Queues preferred elections (KafkaController's auto-leader-rebalance)."""
    if not config.auto_leader_rebalance_enable:
        return
    await asyncio.sleep(FIRST_REBALANCE_S)
    while True:
        queue.put(events.AutoPreferredReplicaLeaderElection())
        await asyncio.sleep(config.leader_imbalance_check_interval_ms / 1000)


async def expire_tokens(config: ControllerConfig, queue: EventQueue) -> None:
    """Queues the removal of expired tokens."""
    while config.delegation_token_secret_key is not None:
        queue.put(events.ExpireTokens(wall_ms()))
        await asyncio.sleep(config.delegation_token_expiry_check_interval_ms / 1000)


async def check_time_outs(active: ActiveController, channels: BrokerChannels, queue: EventQueue) -> None:
    """Checks the time-outs of waiting requests and of LeaderAndIsr responses."""
    while True:
        await asyncio.sleep(TICK_S)
        channels.check_acknowledgements(asyncio.get_running_loop().time())
        if active.waiting:
            queue.put(events.Tick())
