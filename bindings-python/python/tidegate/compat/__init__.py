"""Doors for people who come from another library: its names, parameters and errors, on Tidegate's engine.

Each is a module of its own, imported when you ask for it; none imports the library that it stands in for.
"""
