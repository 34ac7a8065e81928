"""Every kernel has its types and its slow twin; the constants that kernels repeat are the package's."""

import importlib.machinery
import re
from pathlib import Path

import pytest

from kcore import constants

TESTS = Path(__file__).parents[1]
KERNELS = TESTS.parent / "src" / "kcore" / "_ext"
CRATE_MODULES = sorted(path.parent.name for path in (KERNELS / "rust").glob("*/Cargo.toml"))
NO_TWINS = {"hollow", "column_tables"}  # A loop of sockets and time; tables that others read: neither decides.
CYTHON_MODULES = sorted(path.stem for path in KERNELS.glob("*.pyx"))
NUMBA_MODULES = sorted(path.stem for path in KERNELS.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", CYTHON_MODULES + CRATE_MODULES)
def test_compiled_modules_have_types(name: str) -> None:
    assert (KERNELS / f"{name}.pyi").is_file()


def test_no_library_outlives_its_kernel() -> None:
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    libraries = {path.name.split(".")[0] for suffix in suffixes for path in KERNELS.glob(f"*{suffix}")}
    assert libraries == {*CYTHON_MODULES, *CRATE_MODULES}


@pytest.mark.parametrize("name", sorted({*CYTHON_MODULES, *CRATE_MODULES, *NUMBA_MODULES} - NO_TWINS))
def test_kernels_have_a_slow_twin(name: str) -> None:
    """A file of tests/reference says whose twin it is: `kcore._ext.<kernel>`."""
    twins = [path.read_text(encoding="utf-8") for path in sorted((TESTS / "reference").glob("*.py"))]
    assert any(re.search(rf"_ext[./]{name}\b", twin) for twin in twins)


def test_kernels_repeat_the_constants_rightly() -> None:
    text = (KERNELS / "constants.pxd").read_text(encoding="utf-8")
    repeated = {name: int(value) for name, value in re.findall(r"^ +(\w+) = (-?\w+)$", text, re.MULTILINE)}
    assert repeated
    assert repeated == {name: getattr(constants, name) for name in repeated}
