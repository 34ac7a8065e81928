"""The exceptions that kcore raises. An error code in a peer's response is an `Errors` value instead.

A bug of our own is an assertion and has no class here.
"""


class KcoreError(Exception):
    """Base of every exception that kcore raises on purpose."""


class ArgumentError(KcoreError, TypeError):
    """A call with an argument that there is not, or with one of a wrong type; the message says which."""


class NotBytesError(KcoreError, TypeError, BufferError):
    """Bytes are expected, and what is given has none, has items of floats, is not contiguous, or not writable."""


class MissingExtraError(KcoreError, ModuleNotFoundError):
    """A package that kcore needs for this alone is not installed; the message names the extra, `name` the package."""


class DecodeError(KcoreError, ValueError):
    """Bytes that are not the message they should be; `offset` is where the reader stood."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} (at offset {offset})")
        self.message = message
        self.offset = offset

    def __reduce__(self) -> tuple[type["DecodeError"], tuple[str, int]]:
        return type(self), (self.message, self.offset)


class EncodeError(KcoreError, ValueError):
    """A value that its field cannot carry: wrong type, out of range, null where null is not allowed."""


class UnsupportedVersionError(KcoreError, ValueError):
    """The message lacks that version, or the version lacks a field that is set and not ignorable."""


class UnknownMessageError(KcoreError, KeyError):
    """No message has that name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TableError(KcoreError, ValueError):
    """Arrays, columns or rows that do not make a table: shapes, ranges, unknown brokers or topics."""


class PlacementError(KcoreError, ValueError):
    """No placement satisfies what was asked (Kafka's InvalidReplicationFactorException and its kin)."""


class LevelError(KcoreError, ValueError):
    """No such feature level, or a decision that the controllers of that level do not take."""


class UnwritableMetadataError(KcoreError, ValueError):
    """Records of a metadata.version have no field for a value (Kafka's UnwritableMetadataException)."""

    def __init__(self, version: str, loss: str) -> None:
        super().__init__(f"metadata.version {version} cannot represent {loss}")
        self.version = version
        self.loss = loss

    def __reduce__(self) -> tuple[type["UnwritableMetadataError"], tuple[str, str]]:
        return type(self), (self.version, self.loss)


class PolicyError(KcoreError, ValueError):
    """A user's election policy that is not an njit function of three arguments, or chose a slot it may not."""


class PlanError(KcoreError, ValueError):
    """A benchmark plan with unknown keys, unknown workloads or values out of range."""


class ClusterFileError(KcoreError, ValueError):
    """A file given as a cluster is neither a ZooKeeper dump nor a raw request with its header."""


class StorageError(KcoreError, OSError, ValueError):
    """A file or folder of a log directory that is not what it should be; the message says which, and where in it."""


class FileKindError(KcoreError, OSError):
    """A folder, FIFO, socket or device stands where a file should be; the message names it.

    No StorageError: a damaged index or checkpoint is built anew, but nothing takes the place of what is no file.
    """


class NetworkError(KcoreError, OSError):
    """The exchange with a peer failed; the message names the peer, and the request if there is one."""


class DisconnectedError(NetworkError, ConnectionError):
    """There is no connection, or it ended before the answer came."""


class RefusedError(DisconnectedError):
    """The peer's host refuses the connection: no process listens there."""


class RequestTimeoutError(NetworkError, TimeoutError):
    """A request to a peer took longer than its timeout."""


class FrameError(NetworkError):
    """Bytes that are not the protocol: a size out of bounds, an answer to nothing, a message that does not decode."""


class AuthenticationError(NetworkError):
    """One side did not accept who the other is: TLS or SASL."""


class ControllerMovedError(KcoreError, RuntimeError):
    """`/controller_epoch` has another version than this controller gave it: somebody else controls (KAFKA-6082)."""


class RaftLogError(KcoreError, RuntimeError):
    """An operation would break an invariant of the log: a gap, or a truncation below the high watermark."""


class NewerReleaseError(KcoreError, RuntimeError):
    """A quorum's log or snapshot has what only a newer release can read; the message says what, and where."""


class TargetError(KcoreError, RuntimeError):
    """The controller to put under load cannot be fetched, started or reached, or refuses what it must do."""


class SparkError(KcoreError, RuntimeError):
    """Spark's master or its executors cannot do what was asked; the message says why, and what to do."""


class ZookeeperError(NetworkError):
    """ZooKeeper refused what it was asked, for a reason that is no outcome of an ordinary operation."""


class ElectionRefusedError(KcoreError):
    """This controller must not control the cluster that it finds in ZooKeeper; the message says why."""


class SessionExpiredError(ZookeeperError):
    """The ZooKeeper session is gone, and its ephemeral znodes and watches with it."""
