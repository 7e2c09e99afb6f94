"""Tests of engine/share."""
