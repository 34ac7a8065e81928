"""What administrators ask for: configurations, quotas, ACLs, credentials, tokens, features."""
