"""Sources and sinks for systems outside."""
