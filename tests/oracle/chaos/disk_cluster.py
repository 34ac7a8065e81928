"""Three kcore brokers with three log directories each under kcore's controllers, and disks that can be lost.

With mounts each directory is a small tmpfs, bound to its place, so that it fills, is unmounted, and comes back with
what it held. Without, it is a folder that is moved away.
"""

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Final

from kcore.metadata.image.image import ClusterImage
from kcore.storage.meta_properties import read_meta_properties
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.raft_format import format_log_directories
from kcore.types import Uuid
from oracle.chaos.kraft_kills import Controllers
from oracle.forked import ForkedNode
from oracle.kraft_clusters import Node

BROKERS: Final = (1, 2, 3)
DIRECTORIES: Final = 3  # A broker's log directories; the first has the metadata log.
DISK_BYTES: Final = 192 << 20
SESSION_S: Final = 2.0
OF_BROKERS: Final = """process.roles=broker
node.id={node_id}
controller.quorum.bootstrap.servers={bootstrap}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://{address}
log.dirs={data}
cordoned.log.dirs=
offsets.topic.num.partitions=1
log.segment.bytes=1048576
broker.heartbeat.interval.ms=300
replica.lag.time.max.ms=3000
min.insync.replicas=2
log.dir.failure.timeout.ms=10000
metadata.log.max.record.bytes.between.snapshots=100000
"""
OF_CONTROLLERS: Final = f"""controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
controller.quorum.election.backoff.max.ms=300
metadata.log.max.record.bytes.between.snapshots=100000
leader.imbalance.check.interval.seconds=5
broker.session.timeout.ms={int(SESSION_S * 1000)}
"""


def _run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=30)


def why_no_mounts() -> str:
    """Why no tmpfs can be mounted, or ""."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run("mount", "-t", "tmpfs", "-o", "size=64k", "kcore-chaos", folder)
        except subprocess.CalledProcessError as error:
            return str(error.stderr).strip() or str(error)
        except OSError as error:
            return str(error)
        _run("umount", folder)
    return ""


class Disk:
    """The disk under one log directory. `fault` names its present fault, "" for none."""

    def __init__(self, path: Path, *, mounted: bool) -> None:
        self.path, self._is_mounted = path, mounted
        self._store = path.with_name(f"{path.name}-store")  # A tmpfs; or where the folder is while it is away.
        self.fault = ""
        if mounted:
            self._store.mkdir()
            self._mount()
        else:
            path.mkdir()

    def _mount(self) -> None:
        _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "kcore-chaos", self._store)
        self._attach()

    def _attach(self) -> None:
        if self._is_mounted:
            self.path.mkdir()
            _run("mount", "--bind", self._store, self.path)
        else:
            self._store.rename(self.path)

    def _detach(self) -> None:
        """Takes the directory away; processes that have files open in it can still use them."""
        if self._is_mounted:
            _run("umount", "-l", self.path)
            self.path.rmdir()
        else:
            self.path.rename(self._store)

    def be_a_file(self) -> None:
        """A file takes the directory's place: root ignores permissions."""
        self._detach()
        self.path.write_text("a file")
        self.fault = "file"

    def be_unmounted(self) -> None:
        """The bare mount point is there."""
        self._detach()
        self.path.mkdir()
        self.fault = "unmounted"

    def fill(self) -> None:
        """Nothing more can be written."""
        self.fault = "full"
        with suppress(OSError), (self._store / "filler").open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def restore(self) -> None:
        """It is there again, as it was."""
        match self.fault:
            case "file":
                self.path.unlink()
                self._attach()
            case "unmounted":
                rmtree(self.path)  # With what was written to the bare mount point.
                self._attach()
            case "full":
                (self._store / "filler").unlink()
        self.fault = ""

    def replace(self) -> None:
        """Another disk takes its place, which is empty."""
        self.restore()
        self._detach()
        if self._is_mounted:
            _run("umount", "-l", self._store)
            self._mount()
        else:
            rmtree(self._store)
            self.path.mkdir()

    def close(self) -> None:
        """Nothing is mounted any more."""
        if self._is_mounted:
            for path in (self.path, self._store):
                subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True, timeout=30)


class DiskCluster(Controllers):
    """kcore's controllers, from 101 on, and kcore's brokers 1 to 3; all forked."""

    def __init__(self, *, controllers: int = 3, mounted: bool = True) -> None:
        self.disks: dict[int, list[Disk]] = {}
        self._is_mounted = mounted
        super().__init__(controllers=controllers, brokers=len(BROKERS), properties=OF_CONTROLLERS)

    def _broker(self, node_id: int, port: int, second_port: int) -> Node:
        place = self.folder / f"broker-{node_id}"
        arguments = ["broker", "kraft", "run", "-c", place / "server.properties"]
        node = ForkedNode(node_id, port, place, arguments, f"broker {node_id} is RUNNING")
        disks = self.disks[node_id] = []
        for number in range(1, DIRECTORIES + 1):
            disks.append(Disk(place / f"data-{number}", mounted=self._is_mounted))
        text = OF_BROKERS.format(
            node_id=node_id,
            bootstrap=self.controller_bootstrap,
            address=node.address,
            data=",".join(str(each.path) for each in disks),
        )
        node.properties.write_text(text)
        self.format_broker(node_id)
        return node

    def format_broker(self, broker_id: int) -> None:
        """Its empty directories."""
        paths = [each.path for each in self.disks[broker_id]]
        format_log_directories(paths, node_id=broker_id, cluster_id=self.cluster_id, passes_over_formatted=True)

    def broker(self, broker_id: int) -> Node:
        return self.brokers[broker_id - 1]

    def close(self) -> None:
        for node in [*self.brokers, *self.controllers]:
            node.kill()
        for disks in self.disks.values():
            for each in disks:
                each.close()
        super().close()

    def image(self) -> ClusterImage:
        """By the longest of the controllers' logs, what is not committed included."""
        folders = [node.data / "__cluster_metadata-0" for node in self.controllers]
        return max((load_metadata(each, stop=True) for each in folders), key=lambda image: image.end_offset)

    def directory_ids(self, broker_id: int) -> dict[Path, Uuid]:
        """The directory ids in the meta.properties of the broker's directories."""
        found = {}
        for disk in self.disks[broker_id]:
            directory_id = read_meta_properties(disk.path / "meta.properties").directory_id
            assert directory_id is not None
            found[disk.path] = directory_id
        return found

    def keep_logs(self, where: Path) -> None:
        """Copies the nodes' logs there."""
        where.mkdir(parents=True, exist_ok=True)
        for node in [*self.controllers, *self.brokers]:
            if node.log.exists():
                (where / f"{node.name.replace(' ', '-')}.log").write_bytes(node.log.read_bytes())
