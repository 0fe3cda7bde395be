"""`snapline demo`: a job on Spark that is killed twice, and the proof that nothing was lost or counted twice."""
