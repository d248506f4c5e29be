"""Compatibility layers: names, parameters and errors of other libraries, implemented on Tidegate's engine.

Each is a separate module, which you import explicitly. None imports the library that it replaces.
"""
