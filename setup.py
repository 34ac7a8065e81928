"""Build the compiled kernels and the type stubs of the schema.

Cython compiles every `_ext/*/*.pyx`, maturin every crate of `_ext/rust`; `ci/schema_stubs.py` writes the stubs.
Everything else about the package is in pyproject.toml.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, ExecError

KERNELS = Path("src/kcore/_ext")
CRATES = KERNELS / "rust"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}


class RustExtension(Extension):
    """An extension whose one source is a crate, built by maturin."""

    def __init__(self, name: str, crate: Path) -> None:
        workspace = crate.parent
        sources = [crate / "Cargo.toml", workspace / "Cargo.toml", workspace / "Cargo.lock"]
        sources += sorted(crate.glob("src/**/*.rs"))
        super().__init__(name, sources=[], py_limited_api=True, depends=[str(path) for path in sources])
        self.crate = crate


def find_tool(name: str, *places: Path) -> str:
    """The tool's path: in one of `places`, else on PATH."""
    for place in places:
        if found := shutil.which(name, path=str(place)):
            return found
    if found := shutil.which(name):
        return found
    raise ExecError(f"kcore's Rust kernels need '{name}', and it is not on PATH. Rust comes from https://rustup.rs")


class Build(build):
    """A wheel holds what is built now: an older library left in `build/` stays out of it."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildExt(build_ext):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True  # One job a core.

    def copy_extensions_to_source(self) -> None:
        """Beside the sources too: a library whose kernel is gone would still be importable."""
        built = {Path("src", self.get_ext_filename(ext.name)) for ext in self.extensions}
        for library in KERNELS.rglob("*.so"):
            if library not in built and "target" not in library.parts:
                library.unlink()
        super().copy_extensions_to_source()

    def build_extension(self, ext: Extension) -> None:
        if isinstance(ext, RustExtension):
            self.build_crate(ext)
        else:
            # Some builds of Python have extensions look for libraries in a folder of the machine that compiled them.
            self.compiler.linker_so = [each for each in self.compiler.linker_so if not each.startswith("-Wl,-rpath")]
            super().build_extension(ext)

    def build_crate(self, ext: RustExtension) -> None:
        cargo = find_tool("cargo", Path.home() / ".cargo/bin")
        # pip's isolated builds put maturin's script on PATH only; a plain venv, beside its python only.
        maturin = find_tool("maturin", Path(sys.executable).parent)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        env = {"CARGO_TARGET_DIR": str(Path("build/cargo").resolve()), **os.environ}
        env.pop("CFLAGS", None)  # Of the Cython kernels: a sanitizer's would be linked into the crate's own C.
        env["PATH"] = os.pathsep.join([str(Path(cargo).parent), os.environ["PATH"]])
        with tempfile.TemporaryDirectory() as wheels:
            command = [maturin, "build", "--release", "--locked", "--interpreter", sys.executable]
            command += ["--auditwheel", "skip", "--manifest-path", str(ext.crate / "Cargo.toml"), "--out", wheels]
            if subprocess.run(command, env=env).returncode:
                raise CompileError(f"maturin failed: {' '.join(command)}")
            [wheel] = Path(wheels).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                [library] = [name for name in archive.namelist() if name.endswith((".so", ".pyd", ".dylib"))]
                target.write_bytes(archive.read(library))


# Debug symbols, which most builds of Python ask for, would be four fifths of the package. Own $CFLAGS stay as they are.
OWN = os.environ.get("CFLAGS", "").split()
FLAGS = [] if any(flag.startswith("-O") for flag in OWN) else ["-O3"]
FLAGS += [] if OWN else ["-g0"]
kernels = [
    Extension(".".join(source.with_suffix("").parts[1:]), [str(source)], extra_compile_args=FLAGS)
    for source in sorted(KERNELS.rglob("*.pyx"))
]
subprocess.run([sys.executable, "ci/schema_stubs.py"], check=True)  # Package data, so setuptools must find them.
crates = sorted(manifest.parent for manifest in CRATES.glob("*/Cargo.toml"))
setup(
    ext_modules=[
        *cythonize(kernels, compiler_directives=DIRECTIVES, build_dir="build/cython"),
        *(RustExtension(f"kcore._ext.{crate.name}", crate) for crate in crates),
    ],
    cmdclass={"build": Build, "build_ext": BuildExt},
)
