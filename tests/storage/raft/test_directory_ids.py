"""The meta.properties of all log directories of one node, checked together (KIP-858)."""

from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID, is_reserved_directory
from kcore.storage.meta_properties import MetaProperties, verify_directories, with_directory_ids
from kcore.types import Uuid

ONE, TWO, THREE = Path("/one"), Path("/two"), Path("/three")
IDS = {path: Uuid(bytes([9] * 15 + [number])) for number, path in enumerate((ONE, TWO, THREE))}


def found(**changed: dict[str, object]) -> dict[Path, MetaProperties]:
    """Three directories of node 1; `changed` by name."""
    fields = {"version": 1, "cluster_id": "cluster", "node_id": 1}
    return {
        path: MetaProperties(**fields | {"directory_id": IDS[path]} | changed.get(path.name, {}))  # type: ignore[arg-type]
        for path in IDS
    }


def test_three_sound_directories() -> None:
    verify_directories(found(), node_id=1, cluster_id="cluster")
    verify_directories(found())


@pytest.mark.parametrize(
    "reserved", [MIGRATING_UUID, UNASSIGNED_UUID, LOST_UUID, Uuid(bytes(15) + b"\x63"), Uuid(bytes(8) + b"\xff" * 8)]
)
@pytest.mark.covers("KIP-858 reserved ids")
def test_a_reserved_id_is_refused(reserved: Uuid) -> None:
    assert is_reserved_directory(reserved)
    with pytest.raises(StorageError, match=r"/two/meta.properties: directory.id is .*, which is reserved"):
        verify_directories(found(two={"directory_id": reserved}))


def test_the_first_id_that_is_not_reserved() -> None:
    verify_directories(found(two={"directory_id": Uuid(bytes(15) + b"\x64")}))


def test_an_id_that_two_directories_have_is_refused() -> None:
    with pytest.raises(StorageError, match=r"/three/meta.properties: directory.id is .*, which is that of /one, too"):
        verify_directories(found(three={"directory_id": IDS[ONE]}))


def test_a_directory_without_an_id_is_refused_where_each_needs_one() -> None:
    lacking = found(two={"directory_id": None})
    with pytest.raises(StorageError, match=r"/two/meta.properties: directory.id was not found"):
        verify_directories(lacking)
    verify_directories(lacking, needs_directory_ids=False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node_id": 2}, "/two/meta.properties: node.id is 2, not 1"),
        ({"version": 0, "node_id": 2}, "/two/meta.properties: broker.id is 2, not 1"),
        ({"cluster_id": "other"}, "/two/meta.properties: cluster.id is other, not cluster"),
    ],
)
def test_a_directory_of_another_node_or_cluster_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(StorageError, match=message):
        verify_directories(found(two=changed))
    with pytest.raises(StorageError):
        verify_directories({TWO: found(two=changed)[TWO]}, node_id=1, cluster_id="cluster")


@pytest.mark.covers("KIP-858 migration 2")
@pytest.mark.parametrize("version", [0, 1], ids=["ZooKeeper mode", "KRaft"])
def test_directories_without_an_id_get_one_and_keep_the_rest(version: int) -> None:
    lacking = found(one={"directory_id": None, "version": version}, three={"directory_id": None})
    made = iter([IDS[TWO], LOST_UUID, *(Uuid(bytes([7] * 15 + [number])) for number in range(9))])
    changed = with_directory_ids(lacking, lambda: next(made))
    assert changed.keys() == {ONE, THREE}
    assert changed[ONE].version == version and changed[ONE].node_id == 1
    verify_directories(lacking | changed)
    assert with_directory_ids(found(), lambda: next(made)) == {}
