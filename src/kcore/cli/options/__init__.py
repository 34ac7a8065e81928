"""Options that several commands share: server files, metrics, SCRAM users, Spark, and the options of storms."""
