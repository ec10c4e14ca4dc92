"""Permutation tests, false discovery rate, robust location, Mann-Whitney, and the reference scores."""
