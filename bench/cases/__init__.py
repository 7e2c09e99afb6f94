"""Implements the cases of the table of speed and size; each returns one or more CaseResults."""
