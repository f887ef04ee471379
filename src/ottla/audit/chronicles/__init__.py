"""The judge over chronicles: all that was seen of one run of a cluster, simulated or real.

`chronicle` is what was seen, `case` lays it out, `judgement` asks the checkers, `durability` excuses by name what a
power cut may take.
"""
