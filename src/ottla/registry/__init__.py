"""The client of any schema registry that speaks the REST API of the Confluent Schema Registry."""
