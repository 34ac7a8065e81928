"""The exceptions that kcore raises. An error code in a peer's response is an `Errors` value instead.

A bug in kcore raises AssertionError and has no class in this module.
"""


class KcoreError(Exception):
    """Base of every exception that kcore raises on purpose."""


class ArgumentError(KcoreError, TypeError):
    """A call has an unknown argument, or an argument of a wrong type; the message names it."""


class NotBytesError(KcoreError, TypeError, BufferError):
    """Bytes are expected, but the given object has no suitable buffer.

    The object has no buffer at all, or its buffer has floats, is not contiguous, or is not writable.
    """


class MissingExtraError(KcoreError, ModuleNotFoundError):
    """A package that a feature needs is not installed. The message names the extra; `name` is the missing package."""


class DecodeError(KcoreError, ValueError):
    """The bytes are not a valid message; `offset` is the position at which reading failed."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} (at offset {offset})")
        self.message = message
        self.offset = offset

    def __reduce__(self) -> tuple[type["DecodeError"], tuple[str, int]]:
        return type(self), (self.message, self.offset)


class EncodeError(KcoreError, ValueError):
    """A field cannot carry the given value: wrong type, out of range, or null where null is not allowed."""


class UnsupportedVersionError(KcoreError, ValueError):
    """The message does not have this version, or this version has no field for a value that must not be dropped."""


class UnknownMessageError(KcoreError, KeyError):
    """No message has the given name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TableError(KcoreError, ValueError):
    """The arrays, columns or rows are not a valid table: wrong shapes or ranges, unknown brokers or topics."""


class PlacementError(KcoreError, ValueError):
    """No placement satisfies the request (Kafka's InvalidReplicationFactorException and similar errors)."""


class LevelError(KcoreError, ValueError):
    """The feature level does not exist, or controllers of that level do not make the requested decision."""


class UnwritableMetadataError(KcoreError, ValueError):
    """The records of a metadata.version have no field for a value (Kafka's UnwritableMetadataException)."""

    def __init__(self, version: str, loss: str) -> None:
        super().__init__(f"metadata.version {version} cannot represent {loss}")
        self.version = version
        self.loss = loss

    def __reduce__(self) -> tuple[type["UnwritableMetadataError"], tuple[str, str]]:
        return type(self), (self.version, self.loss)


class PolicyError(KcoreError, ValueError):
    """A user's election policy is not an njit function of three arguments, or chose a slot that it must not choose."""


class PlanError(KcoreError, ValueError):
    """A plan has unknown keys, unknown workloads, values out of range, or options that a target's JVM refuses."""


class ClusterFileError(KcoreError, ValueError):
    """The source of a cluster cannot be read, or has no cluster; the message names the source."""


class StorageError(KcoreError, OSError, ValueError):
    """A file or folder of a log directory is damaged or of a wrong kind; the message names it and the position."""


class FileKindError(KcoreError, OSError):
    """A folder, FIFO, socket or device has the name of an expected file; the message names it.

    This is not a StorageError: kcore rebuilds a damaged index or checkpoint, but it replaces only regular files.
    """


class NetworkError(KcoreError, OSError):
    """The exchange with a peer failed; the message names the peer, and the request if one was sent."""


class DisconnectedError(NetworkError, ConnectionError):
    """No connection exists, or the connection ended before the response came."""


class RefusedError(DisconnectedError):
    """The peer's host refuses the connection: no process listens there."""


class RequestTimeoutError(NetworkError, TimeoutError):
    """A request to a peer took longer than its timeout."""


class FrameError(NetworkError):
    """A peer's bytes break the protocol: a size out of bounds, a response without a request, or an invalid message."""


class AuthenticationError(NetworkError):
    """One side did not accept the identity of the other side, by TLS or SASL."""


class ControllerMovedError(KcoreError, RuntimeError):
    """`/controller_epoch` has another version than this controller wrote: another controller is active (KAFKA-6082)."""


class RaftLogError(KcoreError, RuntimeError):
    """An operation would break an invariant of the log: a gap, or a truncation below the high watermark."""


class NewerReleaseError(KcoreError, RuntimeError):
    """A quorum's log or snapshot contains data that only a newer release can read; the message says which and where."""


class TargetError(KcoreError, RuntimeError):
    """A storm cannot fetch, start or reach its target controller, or the controller refuses a request of the storm."""


class SparkError(KcoreError, RuntimeError):
    """Spark's master or executors cannot do the work; the message says why, and how to fix it."""


class ZookeeperError(NetworkError):
    """ZooKeeper refused a request, for a reason that is not an expected result of the operation."""


class ElectionRefusedError(KcoreError):
    """This controller must not control the cluster whose state it found in ZooKeeper; the message says why."""


class SessionExpiredError(ZookeeperError):
    """The ZooKeeper session has ended, and ZooKeeper has removed its ephemeral znodes and watches."""
