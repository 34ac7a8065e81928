"""The main job: plans, results, reports and their comparison."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcore.extras import needs

if TYPE_CHECKING:
    from kcore.measure.bench.bench_plan import Plan as Plan
    from kcore.measure.bench.job import run as run

_LATER = {"run": "job", "Plan": "bench_plan"}


def __getattr__(name: str) -> Any:
    """Imports Arrow when a caller first uses one of these names."""
    if name in _LATER:
        with needs("report"):
            return getattr(import_module(f"kcore.measure.bench.{_LATER[name]}"), name)
    raise AttributeError(f"module 'kcore.measure.bench' has no attribute {name!r}")
