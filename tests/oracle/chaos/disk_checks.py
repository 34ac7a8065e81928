"""Checks the invariants of a cluster of `disk_chaos` in the controllers' log and in the files of the brokers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kcore.errors import KcoreError
from kcore.metadata.image.image import ClusterImage
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.tools.diverge import SAME, diverge
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from kcore.wire.records import decode_records
from oracle.chaos.disk_clients import KEYS, Key, Read, number_of
from oracle.chaos.disk_cluster import BROKERS, DiskCluster
from oracle.chaos.kraft_registers import Violation
from oracle.forked import ForkedNode


class Place(NamedTuple):
    """Where a replica is."""

    key: Key
    broker_id: int


def folders_of(paths: Iterable[Path]) -> list[Path]:
    """The folders of partitions in these directories, with those of replicas that move or are deleted."""
    topics = {f"{topic}-" for topic, _ in KEYS}
    found = [folder for path in paths for folder in path.iterdir() if folder.is_dir()]
    return [each for each in found if any(each.name.startswith(topic) for topic in topics)]


def lying(cluster: DiskCluster) -> dict[Place, Path]:
    """Each replica's folder. Violation for one that is there twice, or on its way."""
    names = {f"{topic}-{index}": (topic, index) for topic, index in KEYS}
    found: dict[Place, Path] = {}
    for broker_id in BROKERS:
        for folder in folders_of(each.path for each in cluster.disks[broker_id]):
            if folder.name not in names:
                raise Violation(f"{folder} is still there")
            place = Place(names[folder.name], broker_id)
            if place in found:
                raise Violation(f"{found[place]} and {folder} are of one replica")
            found[place] = folder
    return found


def assigned(image: ClusterImage) -> dict[Place, Uuid]:
    """The directory of each replica, as the controller has it."""
    found = {}
    for key in KEYS:
        known = image.partition(*key)
        for broker_id, directory in zip(known.replicas, known.directories, strict=True):
            found[Place(key, broker_id)] = directory
    return found


def wrong_in_image(image: ClusterImage) -> str:
    """A fenced broker, a partition without a leader, an ISR that is not whole; nothing if all is well."""
    if fenced := [each for each in BROKERS if each not in image.brokers or image.brokers[each].fenced]:
        return f"brokers {fenced} are fenced"
    for key in KEYS:
        known = image.partition(*key)
        if {*known.isr} != {*known.replicas} or known.leader not in known.isr:
            return f"{key} has leader {known.leader}, ISR {known.isr}, ELR {known.elr}"
    return ""


def wrong_leaders(image: ClusterImage) -> str:
    """A partition without a leader, or whose leader is fenced or has lost the replica's directory."""
    for key in KEYS:
        known = image.partition(*key)
        if known.leader < 0:
            return f"{key} has no leader, ISR {known.isr}, ELR {known.elr}"
        broker, directory = image.brokers[known.leader], known.directories[known.replicas.index(known.leader)]
        if broker.fenced or directory not in broker.directories:
            return f"{key} is led by {known.leader}, which is fenced, or has lost the directory"
    return ""


def waiting_for_operator(image: ClusterImage) -> list[Key]:
    """Partitions of which nobody may lead but by an unclean election, once all brokers are there."""
    if any(each not in image.brokers or image.brokers[each].fenced for each in BROKERS):
        return []
    known = {key: image.partition(*key) for key in KEYS}
    return [key for key, each in known.items() if each.leader < 0 and not (each.isr or each.elr or each.last_known_elr)]


def fullest(folders: Mapping[Place, Path], key: Key) -> int:
    """The broker whose replica is the furthest, by the last batch's leader epoch and offset."""
    ends = {}
    for place, folder in folders.items():
        if place.key == key:
            batches = scan_batches(b"".join(path.read_bytes() for path in segment_files(folder)))
            last = (int(batches.partition_leader_epoch[-1]), int(batches.last_offset[-1])) if len(batches) else (-1, -1)
            ends[last] = place.broker_id
    return ends[max(ends)]


def wrong_places(image: ClusterImage, found: Mapping[Place, Path], ids: Mapping[Path, Uuid]) -> str:
    """A replica that is elsewhere than the controller has it, or nowhere."""
    wanted = assigned(image)
    if missing := sorted(wanted.keys() - found.keys()):
        return f"{len(missing)} replicas are on no disk, such as {missing[0]}"
    for place, folder in found.items():
        if wanted.get(place) != ids[folder.parent]:
            return f"{folder}: the controller has the replica in {wanted.get(place)}, not in {ids[folder.parent]}"
    return ""


def wrong(cluster: DiskCluster) -> str:
    """The first deviation from a whole cluster at this moment, or ""."""
    if dead := [node.name for node in (*cluster.controllers, *cluster.brokers) if not node.is_running]:
        return f"{dead} do not run"
    if not_yet := [node.name for node in cluster.brokers if isinstance(node, ForkedNode) and not node.is_ready]:
        return f"{not_yet} are not RUNNING again"
    try:
        image = cluster.image()
        ids = {path: each for broker_id in BROKERS for path, each in cluster.directory_ids(broker_id).items()}
        return wrong_in_image(image) or wrong_places(image, lying(cluster), ids)
    except (KcoreError, OSError, Violation) as error:  # Files that come and go meanwhile.
        return str(error)


def check_replicas_equal(folders: Mapping[Place, Path]) -> None:
    """The replicas of each partition, byte for byte; nobody writes."""
    by_key: dict[Key, list[Path]] = {}
    for place, folder in folders.items():
        by_key.setdefault(place.key, []).append(folder)
    for first, *others in by_key.values():
        for other in others:
            if (found := diverge(first, other)).reason != SAME:
                raise Violation(f"{first} and {other} differ: {found}")


def records_in(folder: Path) -> list[Read]:
    """All records of a replica, by kcore's own reader; DecodeError for what is not whole."""
    data = b"".join(path.read_bytes() for path in segment_files(folder))
    return [Read(each.offset, number_of(bytes((each.value or b"")[:10]))) for each in decode_records(data)]


def unexpected(lines: Iterable[str], expected: Sequence[str]) -> list[str]:
    """The errors in a node's log that no injected fault explains."""
    found = []
    for line in lines:
        is_bad = line.startswith("Traceback") or " ERROR " in line or " CRITICAL " in line
        if is_bad and not any(each in line for each in expected):
            found.append(line)
    return found
