"""Who leads and who is in sync: AlterPartition, elections, directories."""
