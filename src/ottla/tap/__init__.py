"""What passed between Kafka clients and brokers: requests with their answers, from a recording or from the network."""
