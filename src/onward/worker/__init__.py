"""Executes runs: claims them, plays their bodies, commits what they did. See worker.py for how the parts meet."""
