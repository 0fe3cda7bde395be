"""Differential testing of SQL expressions: random typed expressions, evaluated by Spark and by Snapline."""
