"""What brokers are told: control requests, gathered from the table and versioned."""
