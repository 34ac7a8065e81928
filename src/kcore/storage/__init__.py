"""What lies on the disk of a broker or a controller, read and written as Kafka does: logs, checkpoints, small files."""
