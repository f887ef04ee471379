"""The judge over ledgers: what a workload was told, compared with what is stored.

`partition` asks the checkers, `slices` divides what is too large for them, `verdict` compares the sums with what the
guarantee promises. `local` does it in this process, `spark` at any scale; both make histories of tables (`tables`).
"""
