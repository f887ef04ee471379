"""`ottla audit`: a ledger compared with the topic it is about, in this process or on PySpark (docs/audit.md)."""
