"""Engines: settings, records, the store, and the numeric words of the native interface."""
