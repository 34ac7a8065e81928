"""Hollow brokers: real to a controller, and holding nothing; the controllers to put under their load."""
