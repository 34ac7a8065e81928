"""The main job: plans, results, reports and their comparison."""

from kcore.bench.job import run as run
from kcore.bench.plan import Plan as Plan
