"""What communication between ranks costs."""
