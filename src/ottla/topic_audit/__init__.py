"""`ottla audit`: a ledger held against the topic it is about, in this process or on PySpark (docs/audit.md)."""
