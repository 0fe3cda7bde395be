"""Runs jobs on Spark. The only package that imports pyspark."""
