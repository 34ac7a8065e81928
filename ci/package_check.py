"""For ci/package: what the archives hold, and what is installed with them."""

import importlib
import importlib.metadata
import pkgutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path


def archives(tree: Path, sdist: Path, wheel: Path) -> None:
    """The sdist holds every file of the tree; the wheel Python, types, data and a library a kernel, no sources."""
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in files if not name.startswith((".", "build/")) and "egg-info" not in name}
    assert wanted <= packed, f"not in the sdist: {sorted(wanted - packed)}"
    made = [name for name in packed if name.endswith(".so") or (name.startswith("src/") and name.endswith(".c"))]
    assert not made, f"built here, and in the sdist: {made}"

    kernels = {f"{name[4:-4]}{sysconfig.get_config_var('EXT_SUFFIX')}" for name in files if name.endswith(".pyx")}
    crates = {f"kcore/_ext/{path.parent.name}.abi3.so" for path in tree.glob("src/kcore/_ext/rust/*/Cargo.toml")}
    python = {
        name[4:] for name in files if name.startswith("src/kcore/") and name.endswith((".py", ".pyi", "py.typed"))
    }
    data = {name[4:] for name in files if name.startswith("src/kcore/measure/processes/") and name.endswith(".lock")}
    with zipfile.ZipFile(wheel) as zipped:
        names = zipped.namelist()
        [about] = [zipped.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    assert "License-Expression: Apache-2.0" in about and "Author: " in about, about.partition("\n\n")[0]
    held = {name for name in names if ".dist-info/" not in name and not name.endswith("/")}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert held == python | data | kernels | crates, held ^ (python | data | kernels | crates)


def alone(wheel: Path) -> None:
    """The environment has kcore and NumPy, no more; tells their size."""
    names = {each.name: each for each in importlib.metadata.distributions()}
    assert names.keys() == {"kcore", "numpy"}, names.keys()
    assert "manylinux" in wheel.name
    size = {name: sum(file.size or 0 for file in each.files or ()) / 1e6 for name, each in names.items()}
    python = ".".join(map(str, sys.version_info[:3]))
    print(
        f"ci/package: Python {python}: {wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; "
        f"installed {size['kcore']:.0f} MB, and NumPy {size['numpy']:.0f} MB"
    )


def installed() -> None:
    """Every module imports, the kernels among them, and none is left from an older build."""
    import kcore

    names = [module.name for module in pkgutil.walk_packages(kcore.__path__, "kcore.")]
    assert "kcore._ext.records" in names
    assert "kcore._ext.gone" not in names
    for name in names:
        importlib.import_module(name)
    folder = Path(kcore.__file__).parent
    assert (folder / "py.typed").is_file()
    assert Path(sys.prefix).parent in folder.parents, f"another kcore was imported: {folder}"


if __name__ == "__main__":
    {"archives": archives, "alone": alone, "installed": installed}[sys.argv[1]](*map(Path, sys.argv[2:]))
