"""Program that runs a command as a child process and prints its cost as JSON; it does nothing else."""

from __future__ import annotations

MEASURE = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024,
                  done.stderr[-300:]]))
"""
"""Run with ``python -c``; prints exit status, wall s, CPU s, peak MiB, and the end of the command's stderr."""
