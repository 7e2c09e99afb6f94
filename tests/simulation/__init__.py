"""Seeded simulations: disks that lose power, and checks of the data afterwards."""
