"""Common code of the adapters for HTTP clients."""
