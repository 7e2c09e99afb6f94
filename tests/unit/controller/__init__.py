"""Tests of the controller's decisions and of its shell."""
