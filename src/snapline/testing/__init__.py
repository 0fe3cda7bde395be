"""The test kit that ships: simulator and replay tool."""
