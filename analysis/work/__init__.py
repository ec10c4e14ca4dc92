"""The least work of operators, FLOPs and bytes, and how close they come to the peak of their device."""
