"""Imports go strictly downward; the core knows no clock, no dice, no wire and no file; deadlines know no wall clock."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "kcore"

# A unit may import units of lower layers only. A unit is a module or a package under kcore, or one under kcore.measure.
LAYERS = (
    {"collector", "constants", "errors", "java_hash", "printable", "sampled_rate", "steps", "suggestions", "version"},
    {"types"},
    {"extras", "protocol_errors"},
    {"scram"},
    {"_ext"},
    {"schema"},
    {"releases", "wire"},
    {"metadata"},
    {"replication"},
    {"node", "raft", "tables", "whatif"},
    {"controller", "broker"},
    {"kraft", "net", "storage", "zk", "zookeeper"},
    {"files", "server", "sim", "measure/workloads", "measure/report"},
    {"sources", "spark"},
    {"measure/bench", "measure/hollow", "measure/processes", "measure/watch"},
    {"bench", "measure/designs", "measure/raft_bench", "measure/rivals", "measure/storm"},
    {"cli"},
    {"__main__"},
)
LAYER = {unit: layer for layer, units in enumerate(LAYERS) for unit in units}
CORE = LAYER["controller"]  # The last layer that is pure.
EDGE_MODULES = {"time", "random", "socket", "os", "asyncio", "threading"}
# Crates under _ext/rust that have sockets and a clock: who alone may import each.
EDGE_CRATES = {"answer_loop": "server", "hollow": "measure/hollow"}
EDGE_OF_RUST = re.compile(r"\bstd::(net|time|fs|env|thread|process|os)\b|\b(mio|rand|tokio|socket2)::")
# The readers of the wall clock, and their purposes; deadlines use a monotonic clock.
WALL_CLOCK = {
    "cli/servers/quorum_describe.py": "how long ago it was, as Kafka's tool tells it",
    "measure/designs/v3.py": "time stamps in znodes",
    "measure/hollow/zk/zk_fleet.py": "time stamps in znodes",
    "server/clock.py": "time stamps of records, znodes and the audit log, and delegation tokens' lifetimes",
    "storage/raft/raft_format.py": "time stamps of records",
    "measure/storm/profile/profile_cell.py": "a recording of the virtual machine has wall-clock times",
    "measure/storm/kraft/kraft_storm.py": "a record's time on the wire against ours",
    "measure/workloads/run_cell.py": "when a run was started",
}
# Circles of imports, those for types alone included, stay within one subject: how many files of a folder may be in one.
CIRCLES = {
    "net": 2,  # A server and its connections.
    "schema": 2,  # The type of a field names the struct that it holds.
    "wire": 2,  # Columns become Arrow when they are asked to.
}
OPENS_FILES = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "fromfile", "tofile", "memmap"}
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+([\w, ]+)|c?import\s+([\w.]+))", re.MULTILINE)


def unit_of(path: Path) -> str:
    return unit_named(path.relative_to(PACKAGE).parts)


def unit_named(parts: Sequence[str]) -> str:
    first = parts[0].removesuffix(".py")
    return f"{first}/{parts[1]}" if first == "measure" and len(parts) > 1 else first


def sources(*suffixes: str) -> list[Path]:
    files = [path for suffix in suffixes for path in sorted(PACKAGE.rglob(f"*{suffix}"))]
    return [
        path for path in files if path not in (PACKAGE / "__init__.py", PACKAGE / "measure" / "__init__.py")
    ]  # Re-exports, or nothing.


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module that a file imports, at its top or inside a function, with full names."""
    return frozenset(_imported(path))


@cache
def nodes_of(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Call, ...]:
    """The imports and the calls of a Python file."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))


def called(path: Path) -> list[ast.expr]:
    """The calls of a Python file: the part of each in front of the bracket."""
    return [node.func for node in nodes_of(path) if isinstance(node, ast.Call)]


def _imported(path: Path) -> Iterator[str]:
    if path.suffix != ".py":
        for origin, names, module in CIMPORT.findall(path.read_text(encoding="utf-8")):
            yield from [f"{origin}.{name.strip()}" for name in names.split(",")] if origin else [module]
        return
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("folder", "unit"), [("controller/rules", "controller"), ("node", "node")])
def test_shared_rules_know_no_mode(folder: str, unit: str) -> None:
    """The modules of the folder are for both modes: they import neither, and no word in them is ZooKeeper's."""
    for path in sorted((PACKAGE / folder).glob("*.py")):
        assert not [each for each in imported(path) if re.match(rf"kcore\.{unit}\.(zk|kraft)\b", each)]
        if path.name != "__init__.py":
            assert not re.search(r"zookeeper|znode|\bzk\b", path.read_text("utf-8"), re.IGNORECASE), path.name


@pytest.mark.parametrize("unit", ["controller", "node"])
@pytest.mark.parametrize(("mode", "other"), [("zk", "kraft"), ("kraft", "zk")])
def test_a_mode_does_not_import_the_other(unit: str, mode: str, other: str) -> None:
    paths = sorted((PACKAGE / unit / mode).rglob("*.py"))
    assert paths
    for path in paths:
        unknown = tuple(f"kcore.{each}.{other}." for each in ("controller", "node"))
        assert not [each for each in imported(path) if each.startswith(unknown)], path.name


OF_BROKERS = ("broker", "server/broker", "server/kraft_broker", "server/zk_broker")
OF_CONTROLLERS = ("controller", "server/kraft_controller", "server/zk_controller")
SHARED = ("node", "server")  # Without the folders above.


def across(folder: str, names: Iterable[str]) -> list[str]:
    """The imports by a file of this folder that reach from brokers to controllers, or back, or from shared code."""
    unknown = {
        *(() if folder.startswith(OF_BROKERS) else OF_BROKERS),
        *(() if folder.startswith(OF_CONTROLLERS) else OF_CONTROLLERS),
    }
    return [name for name in names if name.replace(".", "/").startswith(tuple(f"kcore/{each}/" for each in unknown))]


def test_brokers_and_controllers_do_not_import_each_other() -> None:
    """`kcore.node` and the rest of `server/` have what both need, and import neither."""
    tops = sorted({each.partition("/")[0] for each in (*OF_BROKERS, *OF_CONTROLLERS, *SHARED)})
    paths = [path for top in tops for path in sorted((PACKAGE / top).rglob("*.py"))]
    assert len(paths) > 200
    found = {
        (str(path.relative_to(PACKAGE)), name) for path in paths for name in across(subject_of(path), imported(path))
    }
    assert found == set()


def test_an_import_between_brokers_and_controllers_is_found() -> None:
    envelopes, manager = "kcore.server.kraft_controller.envelopes.opened", "kcore.broker.replicas.replica_manager.Hold"
    assert across("server/broker", [envelopes, manager]) == across("server/zk_broker", [envelopes]) == [envelopes]
    assert across("controller/zk", [envelopes, manager]) == across("server/zk_controller", [manager]) == [manager]
    assert across("server/security", [envelopes, manager, "kcore.node.acls.AclKey"]) == [envelopes, manager]


MODES = {
    "zk": (
        *("kcore.controller.zk.", "kcore.node.zk.", "kcore.broker.zk_control."),
        *("kcore.server.zk_controller.", "kcore.server.zk_node."),
    ),
    "kraft": (
        *("kcore.controller.kraft.", "kcore.node.kraft.", "kcore.broker.metadata_delta."),
        "kcore.server.kraft_controller.",
    ),
}


def test_a_file_of_the_edge_knows_one_mode_of_the_controller() -> None:
    """Code that both modes share is in `node/`, `controller/rules/`, at the top of `server/`, and below."""
    paths = sorted((PACKAGE / "server").rglob("*.py"))
    assert paths
    for path in paths:
        known = {mode for mode, names in MODES.items() if any(each.startswith(names) for each in imported(path))}
        assert len(known) < 2, path


def test_replicas_do_not_know_who_tells_them() -> None:
    """`broker/replicas/` knows neither control requests nor deltas of the log; these do not know each other."""
    others = {"replicas": ("zk_control", "metadata_delta"), "zk_control": ("metadata_delta",)}
    for half, unknown in {**others, "metadata_delta": ("zk_control",)}.items():
        for path in sorted((PACKAGE / "broker" / half).glob("*.py")):
            found = {*imported(path)}
            assert not [each for each in found for name in unknown if each.startswith(f"kcore.broker.{name}.")], path
    told_by = {
        "kcore.schema.LeaderAndIsrRequest",
        "kcore.schema.UpdateMetadataRequest",
        "kcore.schema.StopReplicaRequest",
    }
    for path in sorted((PACKAGE / "broker" / "replicas").glob("*.py")):
        assert not told_by & {*imported(path)}, path.name


def test_zookeeper_is_performed_for_anybody() -> None:
    """Controllers and brokers ask ZooKeeper in the words of `metadata/zookeeper/znode_operations.py`."""
    for path in sorted((PACKAGE / "zookeeper").glob("*.py")):
        units = {module.split(".")[1] for module in imported(path) if module.startswith("kcore.")}
        assert not units & {"controller", "broker", "node", "raft"}, path.name


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def import_graph() -> dict[Path, set[Path]]:
    """The files that each file imports, at its top, inside a function, or for types alone."""
    paths = {module_of(path): path for path in sources(".py")}
    graph = {}
    for path in paths.values():
        names = [name if name in paths else name.rpartition(".")[0] for name in imported(path)]
        graph[path] = {paths[name] for name in names if name in paths} - {path}
    return graph


def circles(graph: dict[Path, set[Path]]) -> set[frozenset[Path]]:
    """The files that import each other, directly or not."""
    reached = {}
    for path in graph:
        found, waiting = set[Path](), [path]
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting += new
        reached[path] = found
    groups = (frozenset(each for each in found if path in reached[each]) for path, found in reached.items())
    return {group for group in groups if group}


def subject_of(path: Path) -> str:
    return str(path.parent.relative_to(PACKAGE))


@pytest.mark.long
def test_no_circle_of_imports_between_subjects() -> None:
    found = circles(import_graph())
    for circle in found:
        names = sorted(str(path.relative_to(PACKAGE)) for path in circle)
        subjects = {subject_of(path) for path in circle}
        assert len(subjects) == 1, f"these import each other: {names}"
        assert len(circle) <= CIRCLES.get(subjects.pop(), 0), f"these import each other: {names}"


def test_a_circle_of_imports_is_found() -> None:
    a, b, c, d = map(Path, "abcd")
    assert circles({a: {b}, b: {c}, c: {a, d}, d: set()}) == {frozenset({a, b, c})}
    assert circles({a: {b, c}, b: {d}, c: {d}, d: set()}) == set()


def test_every_unit_has_a_layer() -> None:
    assert {unit_of(path) for path in sources(".py")} <= set(LAYER)


def upward(unit: str, module: str) -> str | None:
    """The reason why `unit` must not import `module` of kcore; None if the import is allowed."""
    target = unit_named(module.split(".")[1:])
    if target not in LAYER:
        return "name the module, not kcore itself"
    if target != unit and LAYER[target] >= LAYER[unit]:
        return "not of a lower layer"
    return "kernels know constants only" if unit == "_ext" and target not in {"_ext", "constants"} else None


def test_imports_go_downward() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), module, wrong)
        for path in sources(".py", ".pyx", ".pxd")
        for module in imported(path)
        if module.split(".")[0] == "kcore" and (wrong := upward(unit_of(path), module))
    ]
    assert found == []


def test_an_import_upward_is_found() -> None:
    assert upward("raft", "kcore.net.security") and upward("raft", "kcore.controller.kraft.kraft_controller_config")
    assert upward("raft", "kcore.VERSION") and upward("_ext", "kcore.version")
    assert (
        upward("raft", "kcore.raft.log") is upward("raft", "kcore.schema") is upward("_ext", "kcore.constants") is None
    )


def test_the_core_is_pure() -> None:
    paths = [path for path in sources(".py", ".pyx", ".pxd") if LAYER.get(unit_of(path), 0) <= CORE]
    assert len(paths) > 400
    found = []
    for path in paths:
        names = {module for module in imported(path) if module.split(".")[0] in EDGE_MODULES}
        for func in called(path) if path.suffix == ".py" else ():
            names |= {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")} & OPENS_FILES
        found += [(str(path.relative_to(PACKAGE)), name) for name in names]
    assert found == []


def crate_of(path: Path) -> str:
    return path.relative_to(PACKAGE / "_ext" / "rust").parts[0]


RUST = [path for path in sources(".rs") if "target" not in path.relative_to(PACKAGE).parts]


def test_crates_are_pure_but_for_those_of_the_edge() -> None:
    pure = [path for path in RUST if crate_of(path) not in EDGE_CRATES]
    assert pure
    assert [path for path in pure if EDGE_OF_RUST.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(("crate", "importer"), EDGE_CRATES.items())
def test_a_crate_of_the_edge_is_imported_by_the_edge(crate: str, importer: str) -> None:
    assert any(EDGE_OF_RUST.search(path.read_text("utf-8")) for path in RUST if crate_of(path) == crate)
    assert LAYER[importer] > CORE
    name = f"kcore._ext.{crate}"
    found = {unit_of(path) for path in sources(".py", ".pyx", ".pxd") if name in imported(path)}
    assert found == {importer}


def test_deadlines_do_not_depend_on_the_wall_clock() -> None:
    """Callers of time.time or time.time_ns give their purpose in WALL_CLOCK."""
    found = set()
    for path in sources(".py"):
        clocks = [func for func in called(path) if isinstance(func, ast.Attribute) and func.attr in {"time", "time_ns"}]
        if any(ast.unparse(func) in {"time.time", "time.time_ns"} for func in clocks):
            found.add(str(path.relative_to(PACKAGE)))
        found |= {str(path)} if {"time.time", "time.time_ns"} & imported(path) else set()
    assert found == set(WALL_CLOCK)
