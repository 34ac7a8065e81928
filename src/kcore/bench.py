"""The public name of `kcore.measure.bench`: benchmark plans and their results."""

from kcore.measure.bench import Plan as Plan
from kcore.measure.bench import run as run
