"""Single noisy sums that a training may release beside the rounds of a method: one file each."""
