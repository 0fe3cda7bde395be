"""What travels between processes: messages, channel items, frames, and authentication."""
