"""The ranks of a job: what each did and waited for, who is late, and why."""
