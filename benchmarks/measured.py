"""A command as a process of its own: what it cost, as JSON, said by a process that does nothing else."""

from __future__ import annotations

MEASURE = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024,
                  done.stderr[-300:]]))
"""
"""Run with ``python -c``: exit status, wall s, CPU s, peak MiB, the end of what it said on stderr."""
