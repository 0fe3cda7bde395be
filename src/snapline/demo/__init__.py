"""`snapline demo`: a job on Spark that is killed twice, and a proof that it counted exactly once."""
