"""What was seen of a real cluster, written down in the judge's words (`audit`), as the simulation does of its own.

`witness` looks at one topic; `reads`, `logs` and `sent` are its parts. What could not be seen stays None in the
chronicle, or is named in `witness.NOT_SEEN`: it is not judged. Nothing of the simulation is imported here; `decoded`,
which is pure, serves both.
"""
