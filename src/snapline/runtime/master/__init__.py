"""The job master: the driver's side of a running job."""
