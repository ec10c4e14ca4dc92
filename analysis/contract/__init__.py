"""The types of questions and answers: columns, views, detail sections, pages and options."""
