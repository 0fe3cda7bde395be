"""Jobs under real failures, and the proof that they counted every row."""
