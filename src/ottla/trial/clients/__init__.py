"""Clients other than ottla's for trials: short programs that read and write the lines of docs/trial-clients.md."""
