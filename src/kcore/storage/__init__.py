"""The files of a broker or a controller, read and written as Kafka does: logs, checkpoints, small files."""
