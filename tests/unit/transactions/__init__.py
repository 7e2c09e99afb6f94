"""Tests of engine/transactions."""
