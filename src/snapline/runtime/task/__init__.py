"""One subtask: a thread with a mailbox, its inputs, its operators and its outputs."""
