"""What a whole model's answers are worth: compared with FP64, between settings of the engine, and by needles.

`python -m validation quality`. docs/quality.md says what its numbers mean.
"""
