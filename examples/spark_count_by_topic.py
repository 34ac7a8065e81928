"""Count the records of a broker's log directory by topic, with Spark: a task a segment."""

import sys
from pathlib import Path

import kcore.spark
from kcore.spark.session import start

RECORDED = Path(__file__).parents[1] / "tests/data/samples/kraft43/broker2-a"

spark = start("local[2]")
kcore.spark.register(spark)
records = spark.read.format("kcore.log").load(sys.argv[1] if len(sys.argv) > 1 else str(RECORDED))
for row in records.groupBy("topic").count().orderBy("topic").collect():
    print(row["topic"], row["count"])
spark.stop()

# Prints:
# orders 2
