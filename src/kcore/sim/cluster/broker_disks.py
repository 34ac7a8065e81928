"""The log directories of one broker, which outlive its processes: which replicas each directory has."""

from collections.abc import Callable, Collection

from kcore.broker.directories.found import FoundLog
from kcore.broker.directories.outputs import TopicIdPartition
from kcore.types import Uuid


class BrokerDisks:
    """Directories by id. `lost` directories fail every operation until `replace_lost`."""

    def __init__(self, new_id: Callable[[], Uuid], count: int) -> None:
        self._new_id = new_id
        self.directories: dict[Uuid, dict[TopicIdPartition, None]] = {new_id(): {} for _ in range(count)}
        self.lost: set[Uuid] = set()
        self.clean_epoch = -1  # The broker epoch of the last process, if it ended cleanly (KIP-966).

    @property
    def online(self) -> list[Uuid]:
        return [each for each in self.directories if each not in self.lost]

    def found(self) -> dict[TopicIdPartition, list[FoundLog]]:
        """The logs that a process finds at its start."""
        logs: dict[TopicIdPartition, list[FoundLog]] = {}
        for directory in self.online:
            for partition in self.directories[directory]:
                logs.setdefault(partition, []).append(FoundLog(directory, is_future=False))
        return logs

    def create(self, partition: TopicIdPartition, directory: Uuid) -> bool:
        """Creates a log; False if the directory is lost."""
        if directory in self.lost or directory not in self.directories:
            return False
        self.directories[directory][partition] = None
        return True

    def delete(self, partition: TopicIdPartition, directories: Collection[Uuid] | None = None) -> None:
        """Deletes the partition's logs in these directories, or in all."""
        for directory in self.online if directories is None else directories:
            if directory not in self.lost:
                self.directories[directory].pop(partition, None)

    def lose(self, directory: Uuid) -> None:
        """The directory fails, and its logs are gone."""
        self.lost.add(directory)
        self.directories[directory].clear()
        self.clean_epoch = -1

    def replace_lost(self) -> None:
        """An administrator replaces each lost directory by an empty one, which gets another id."""
        for directory in self.lost:
            del self.directories[directory]
            self.directories[self._new_id()] = {}
        self.lost.clear()
