"""The judge: what was sent and told, and what was seen of a cluster -> anomalies -> verdict.

Two kinds of case come before it. A ledger beside what is stored (`history`, one partition at a time; `partition` asks
the checkers, `verdict` holds the sums against what the guarantee promised, `spark` does it at scale). And a
`chronicle`, all that was seen of one run, logs and leaders included (`case` lays it out, `judgement` asks the checkers,
`durability` excuses by name what a power cut may take). Each checker file asks one question, and opens with what is
promised and what cannot be seen; what was not seen is never passed. All is plain Python without clocks or chance, and
imports nothing but the ledger's words: it shares no code with what it judges.
"""
