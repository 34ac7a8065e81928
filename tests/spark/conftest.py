from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import kcore.spark
from kcore.spark.session import start
from spark.log_dirs import log_dirs as log_dirs
from workloads.fakes import fake_workload as fake_workload


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session on two cores that has both formats."""
    session = start("local[2]")
    kcore.spark.register(session)
    yield session
    session.stop()
