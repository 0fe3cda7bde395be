"""Whether a snapshot fits a job, and which subtask gets what."""
