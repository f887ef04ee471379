"""The page to look inside a Kafka: what it asks of the cluster, the JSON it answers with, and the page itself."""
