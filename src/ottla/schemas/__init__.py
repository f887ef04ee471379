"""Python objects and Arrow columns <-> the bytes of a record's key and value; no network."""
