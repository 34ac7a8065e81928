"""The public names of benchmark plans and their results, from `kcore.measure.bench`."""

from kcore.measure.bench import Plan as Plan
from kcore.measure.bench import run as run
