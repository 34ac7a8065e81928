"""All pairs of brokers over a real Spark: the outcomes that one process finds."""

from pathlib import Path

import numpy as np
import pytest

from cli.invoking import kcore
from kcore.measure.workloads.generate import generate
from kcore.spark.session import start
from kcore.spark.whatif import pair_pieces
from kcore.whatif import PairOutcomes, what_if

pytestmark = pytest.mark.long
DUMP = Path(__file__).parents[1] / "data/samples/zk39-scenario/3-broker3-back.zk.txt"


def test_the_pairs_are_those_without_spark() -> None:
    asked = what_if(generate(partitions=600, brokers=15, replication_factor=3, topics=6, seed=1, racks=3), min_isr=2)
    spark = start("local[2]")
    try:
        parts = [each.result for each in pair_pieces(spark, asked.cluster)]
    finally:
        spark.stop()
    found, wanted = PairOutcomes.joined([part for shares in parts for part in shares]), asked.pairs()
    assert len(parts) == 8 and len(found) == len(wanted) == 105
    for name in PairOutcomes.__dataclass_fields__:
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


def test_the_command_asks_spark() -> None:
    plain, spread = (kcore("whatif", DUMP, "--pairs", "--json", *more) for more in ([], ["--master", "local[2]"]))
    assert spread.exit_code == 0 and plain.stdout == spread.stdout
