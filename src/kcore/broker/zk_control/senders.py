"""Checks with ZooKeeper's data whether the sender of a control request is the controller.

Kafka's brokers accept any controller epoch that is not smaller than the last one. A forged large epoch then makes them
refuse the real controller as stale for ever. Here a larger epoch is accepted only if `/controller_epoch` has it: a
controller writes its epoch there before it sends requests.
"""

from typing import NamedTuple

from kcore.constants import NO_EPOCH
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.protocol_errors import Errors
from kcore.wire.columns import Columns


class KnownController(NamedTuple):
    """The controller in ZooKeeper."""

    epoch: int
    broker_id: int | None  # None if `/controller` does not exist or is unreadable.
    is_kraft: bool | None = None  # True if a KRaft controller that migrates the cluster owns the znode (KIP-866).


def controller_of(epoch: Node | None, controller: Node | None) -> KnownController:
    """The controller by `/controller_epoch` and `/controller`, which were read together."""
    try:
        known_epoch = NO_EPOCH if epoch is None else znodes.decode_controller_epoch(epoch.data)
    except TableError:
        known_epoch = NO_EPOCH
    try:
        found = None if controller is None else znodes.decode_controller(controller.data)
    except TableError:
        found = None
    if found is None:
        return KnownController(known_epoch, None)
    return KnownController(known_epoch, found.broker_id, found.kraft_controller_epoch not in (None, NO_EPOCH))


def sender_error(request: Columns, known: KnownController) -> Errors:
    """The error for a request whose sender is not the controller; NONE if it is."""
    if request.controller_epoch < known.epoch:
        return Errors.STALE_CONTROLLER_EPOCH  # Another controller was elected since.
    if request.controller_epoch > known.epoch or known.broker_id not in (None, request.controller_id):
        return Errors.NOT_CONTROLLER  # An epoch has one controller.
    if known.is_kraft not in (None, bool(request.is_kraft_controller)):
        return Errors.NOT_CONTROLLER  # ZooKeeper has a controller of the other mode.
    return Errors.NONE
