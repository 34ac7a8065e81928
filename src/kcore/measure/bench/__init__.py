"""Runs benchmark plans; summarises, reports and compares their results.

- `bench_plan`, `plan_rules`, `builtin`: a plan, the values of its keys, and the built-in plans.
- `job`, `cell_journal`, `bench_results`: the run of a plan, its finished cells on disk, and its results.
- `tables`, `shapes_table`, `bench_report`, `bench_charts`, `bench_history`: results on a terminal and as a page.
- `compare`, `compare_views`, `compare_page`: the comparison of two runs, as text and as a page.
"""

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
