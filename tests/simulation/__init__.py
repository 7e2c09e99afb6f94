"""Everything under a seed: disks that lose power, and what is there afterwards."""
