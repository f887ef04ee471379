"""Trials: experiments that show what a delivery guarantee is worth, each a scenario in a short TOML file."""
