"""One subtask: a thread with a mailbox, inputs, operators and outputs."""
