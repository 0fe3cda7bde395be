"""The rules as pure state machines: events in, effects out. No thread, clock, socket, file or random number in here."""
