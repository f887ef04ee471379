"""Whether data of one schema can be read with another one: one file for each kind of schema."""
