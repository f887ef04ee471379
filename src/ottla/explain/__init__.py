"""From a capture to what went wrong: which promises are broken, which faults are consistent with it, and a plan."""
