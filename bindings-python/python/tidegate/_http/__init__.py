"""What the adapters of HTTP clients share."""
