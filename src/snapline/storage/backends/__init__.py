"""Storage backends behind `FileObjects`: local files, S3, HDFS and other schemes of fsspec."""
