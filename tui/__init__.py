"""Answers → screens: the Textual app. Holds no polars expression and knows no file format."""
