"""`ottla bench`: ottla's producer and other clients of this machine, one after the other, on the same brokers."""
