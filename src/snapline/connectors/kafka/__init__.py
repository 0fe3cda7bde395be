"""Kafka as a source and as a sink, with librdkafka's client."""
