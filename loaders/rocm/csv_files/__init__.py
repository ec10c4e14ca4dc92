"""The CSV files of AMD's profilers: one module a tool that recognises them, one that reads them."""
