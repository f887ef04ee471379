"""The controller: which topics there are, and the leaders and replicas of their partitions."""
