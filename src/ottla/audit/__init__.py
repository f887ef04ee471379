"""The judge: what was sent and told, and what was seen of a cluster -> anomalies -> verdict.

There are two judges, and each has a room. `ledgers` compares a ledger with what is stored, one partition at a time, and
the sums with what the guarantee promises; with Spark at any scale. `chronicles` judges all that was seen of one run,
logs and leaders included. The two do not import each other. What they share stands here: the names of anomalies and the
evidence (`findings`), what is promised (`promises`), and the checkers of one partition's history that both use.
`properties` adds up what both have found.

Each checker file asks one question, and opens with what is promised and what cannot be seen; what was not seen never
counts as kept. All is plain Python without clocks or chance, and imports only `ledger`: it shares no code with what it
judges.
"""
