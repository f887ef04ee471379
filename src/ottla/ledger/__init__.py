"""What a workload sent and what it learned about it: the format that client and judge share.

A ledger is one row per record sent, written beside the run and read by the audit. `schema` is plain Python (a
producer may import it); the other files work on Parquet and Arrow columns, and load pyarrow.
"""
