"""What every question and answer is made of: columns, views, sections of details, pages and options."""
