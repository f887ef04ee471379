"""The controller: which topics there are, who leads and who holds their partitions."""
