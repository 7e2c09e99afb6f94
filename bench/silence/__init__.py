"""Measures how long one client's large request keeps the answers of all other clients waiting."""
