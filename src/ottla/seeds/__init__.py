"""`ottla simulate`: many seeds in processes side by side, their outcomes, and failing plans kept as files.

`simulation` runs one seed, and is pure; processes, files and the terminal are here.
"""
