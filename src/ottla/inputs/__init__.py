"""Files of rows that a command was given: looked at first, then read into one Arrow table."""
