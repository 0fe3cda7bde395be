"""Monitoring: REST interface and page."""
