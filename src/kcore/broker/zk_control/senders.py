"""Which sender of control requests a broker believes, by what ZooKeeper says of the controller.

Kafka's brokers believe any controller epoch that is not smaller than the last one. Whoever sends a large one is then
obeyed, and the real controller is refused as stale for ever. Here an epoch above the last one is believed only if
`/controller_epoch` has it: a controller writes it there before it sends anything.
"""

from typing import NamedTuple

from kcore.constants import NO_EPOCH
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.protocol_errors import Errors
from kcore.wire.columns import Columns


class KnownController(NamedTuple):
    """What is known of the controller."""

    epoch: int
    broker_id: int | None  # None where there is none, or it is not known.
    is_kraft: bool | None = None  # A KRaft controller has the znode of the cluster that it migrates (KIP-866).


def controller_of(epoch: Node | None, controller: Node | None) -> KnownController:
    """By `/controller_epoch` and `/controller`, read at once."""
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


def doubt(request: Columns, known: KnownController) -> Errors:
    """Why the sender of a request is not believed; NONE if it is."""
    if request.controller_epoch < known.epoch:
        return Errors.STALE_CONTROLLER_EPOCH  # Another one was elected since.
    if request.controller_epoch > known.epoch or known.broker_id not in (None, request.controller_id):
        return Errors.NOT_CONTROLLER  # An epoch has one controller.
    if known.is_kraft not in (None, bool(request.is_kraft_controller)):
        return Errors.NOT_CONTROLLER  # It says that it is of another kind than ZooKeeper has it.
    return Errors.NONE
