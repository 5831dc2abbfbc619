"""Many healthy runs of small cases with fresh seeds."""
