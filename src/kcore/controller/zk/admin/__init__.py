"""What administrators ask for, by API."""
