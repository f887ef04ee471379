"""The judge: what was sent and told, and what was seen of a cluster -> anomalies -> verdict.

Two kinds of case come before it, and each has a room. `ledgers`: a ledger beside what is stored, one partition at a
time; the sums are held against what the guarantee promised, with Spark at any scale. `chronicles`: all that was seen of
one run, logs and leaders included. The two do not know each other. What they share stands here: the names of anomalies
and the evidence (`findings`), what is promised (`promises`), and the checkers that ask one partition's history what
both want to know. `properties` adds up what both have found.

Each checker file asks one question, and opens with what is promised and what cannot be seen; what was not seen is never
passed. All is plain Python without clocks or chance, and imports nothing but the ledger's words: it shares no code with
what it judges.
"""
