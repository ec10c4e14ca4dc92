"""What changed beyond chance: suspects, resources, explanation, gate."""
