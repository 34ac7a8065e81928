"""The runners: the same cells in this process or on Spark."""
