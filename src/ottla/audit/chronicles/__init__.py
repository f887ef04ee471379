"""The judge over chronicles: all that was seen of one run of a cluster, simulated or real.

`chronicle` is what was seen, `case` orders it for the checkers, `judgement` asks them, `durability` names the power cut
or election that excuses a loss.
"""
