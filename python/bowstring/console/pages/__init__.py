"""Holds the pages of the console: one module for each, with its `routes`."""
