"""What is trained: operators, models, and how they scale with training compute."""
