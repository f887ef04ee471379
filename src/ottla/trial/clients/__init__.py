"""Clients other than ottla's for trials, each a short program that speaks the lines of docs/trial-clients.md."""
