"""Tests of engine/groups/share."""
