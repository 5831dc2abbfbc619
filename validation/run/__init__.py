"""From a plan to results: which cases run, where, and what they came to."""
