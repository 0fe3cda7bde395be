"""Object stores: whole objects under paths, in memory, local files, S3, HDFS and other schemes of fsspec."""
