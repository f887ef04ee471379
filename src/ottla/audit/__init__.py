"""The judge: ledgers and what is stored -> anomalies -> verdict.

`history` lays one partition's ledger rows beside its stored records; each checker file asks one question of it;
`partition` runs them all; `verdict` holds the sums against what the guarantee promised. All of that is plain Python
over columns, so that Spark's workers (`spark`) and the simulator use the same judge, and it imports nothing but the
ledger's words: it shares no code with the producer it judges.
"""
