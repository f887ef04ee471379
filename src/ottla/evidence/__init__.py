"""What was seen of a real cluster, as a chronicle (`audit`): the simulation writes the same of its own clusters.

`witness` looks at one topic; `reads`, `logs` and `sent` are its parts. What could not be seen stays None in the
chronicle, or is named in `witness.NOT_SEEN`: it is not judged. Nothing of the simulation is imported here; `decoded`,
which is pure, serves both.
"""
