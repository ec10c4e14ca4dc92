"""AMD's profilers: rocprofv3 (CSV, JSON, rocpd), rocprof, rocprofiler-compute and rocmProfileData.

Each format has a small module that recognises it and is imported whenever a file is opened, and a ``read_…`` module
that does the rest. All of them collect rows in a ``recording.Recording``.
"""
