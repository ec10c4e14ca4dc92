"""The app: its screens, jobs and session."""
