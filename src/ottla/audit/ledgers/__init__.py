"""The judge over ledgers: what a workload was told, beside what is stored.

`partition` asks the checkers, `slices` divides what is too large for them, `verdict` holds the sums against what the
guarantee promised. `local` does it in this process, `spark` at any scale; both make histories of tables (`tables`).
"""
