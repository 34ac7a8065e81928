"""Creation and deletion of topics, and new partitions of existing ones."""
