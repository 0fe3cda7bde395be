"""Connections between the processes of a job: authentication, control frames and the data plane."""
