"""The judge over ledgers: what a workload was told, beside what is stored.

`partition` asks the checkers, `verdict` holds the sums against what the guarantee promised, `spark` does it at scale.
"""
