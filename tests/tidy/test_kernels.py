"""Every kernel has its types and its slow twin; the constants that kernels repeat are the package's."""

import importlib.machinery
import re
from pathlib import Path

import pytest

from kcore import constants
from kcore.metadata.table import directory_table
from kcore.raft.log import batches
from kcore.replication import kraft_changes
from kcore.server import answers
from kcore.wire import layout, metadata_frames, record_batch

TESTS = Path(__file__).parents[1]
KERNELS = TESTS.parent / "src" / "kcore" / "_ext"
CRATE_MODULES = sorted(path.parent.name for path in (KERNELS / "rust").glob("*/Cargo.toml"))
NO_TWINS = {"hollow", "column_tables"}  # A loop of sockets and time; tables that others read: neither decides.
CYTHON_MODULES = sorted(path.stem for path in KERNELS.rglob("*.pyx"))
NUMBA_MODULES = sorted(path.stem for path in KERNELS.rglob("*.py") if path.stem != "__init__")
# Numbers that kernels repeat under the names that the package gives them, and names that only kernels have.
REPEATED = [constants, batches, record_batch, metadata_frames, directory_table, layout, kraft_changes]
KERNEL_NAMES = {
    "CRC_START": record_batch.ATTRIBUTES_AT,
    "MAX_TEXT": answers.MOST_BYTES,
    "MAX_STRING": answers.MOST_BYTES,
}
NUMBER = re.compile(
    r"^ *(?:(?:pub )?const )?([A-Z][A-Z_]+)(?:: [iu]\w+)? = (-?(?:0x)?[0-9A-Fa-f_]+)\b(?! *[*<])", re.MULTILINE
)
OTHER_MEANINGS = {"lz4.rs": {"MAGIC"}}  # The magic of an lz4 frame, not the magic of a record batch.


@pytest.mark.parametrize("name", CYTHON_MODULES + CRATE_MODULES)
def test_compiled_modules_have_types(name: str) -> None:
    assert len(list(KERNELS.rglob(f"{name}.pyi"))) == 1


def test_no_library_outlives_its_kernel() -> None:
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    found = [path for suffix in suffixes for path in KERNELS.rglob(f"*{suffix}") if "target" not in path.parts]
    libraries = {path.name.split(".")[0] for path in found}
    assert libraries == {*CYTHON_MODULES, *CRATE_MODULES}


@pytest.mark.parametrize("name", sorted({*CYTHON_MODULES, *CRATE_MODULES, *NUMBA_MODULES} - NO_TWINS))
def test_kernels_have_a_slow_twin(name: str) -> None:
    """A file of tests/reference says whose twin it is: `kcore._ext.<kernel>`."""
    twins = [path.read_text(encoding="utf-8") for path in sorted((TESTS / "reference").glob("*.py"))]
    assert any(re.search(rf"_ext[./](?:\w+[./])?{name}\b", twin) for twin in twins)


def test_kernels_repeat_the_constants_rightly() -> None:
    known = {name: value for module in REPEATED for name, value in vars(module).items() if type(value) is int}
    found = set()
    for path in [*KERNELS.rglob("*.pyx"), *KERNELS.rglob("*.pxd"), *KERNELS.glob("rust/*/src/**/*.rs")]:
        for name, value in NUMBER.findall(path.read_text(encoding="utf-8")):
            if name in known | KERNEL_NAMES and name not in OTHER_MEANINGS.get(path.name, ()):
                assert int(value, 0) == (known | KERNEL_NAMES)[name], f"{path}: {name}"
                found.add(name)
    assert found >= {"NO_LEADER", "MAX_REPLICAS", "LENGTH_END", "HEADER_END", "CRC_END", "CODEC_MASK", *KERNEL_NAMES}
