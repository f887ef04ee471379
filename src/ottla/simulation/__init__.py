"""The shipped cores with a simulated network, disks and clock: a seed decides all that happens."""
