"""What all figures share: what a figure is, how it is computed, kept, drawn and written up."""
