"""What travels between processes: messages, channel items, frames, and who may connect."""
