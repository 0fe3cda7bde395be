"""Kafka to keyed counts to Kafka, PostgreSQL and Delta at once, on Spark, under random kills."""
